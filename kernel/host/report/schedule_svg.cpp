#include "report/schedule_svg.h"

#include <algorithm>
#include <cstdio>

#include "foreign_text.h"

namespace meshwright::host {

namespace {

// Paul Tol's bright palette, as in memory_svg.cpp.
struct EventStyle {
  PipelineEventKind kind;
  const char* colour;
};
constexpr EventStyle kEventStyles[] = {{PipelineEventKind::forward, "#4477aa"},
                                       {PipelineEventKind::backward, "#228833"},
                                       {PipelineEventKind::input_gradient, "#66ccee"},
                                       {PipelineEventKind::weight_gradient, "#ccbb44"}};

class ScheduleDrawing {
 public:
  explicit ScheduleDrawing(const TimedSchedule& timed) : timed_(timed), shape_(timed.schedule.shape) {}

  std::string run() {
    const double height = kTop + kRow * shape_.stages + kBottom;
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + figure(kWidth) + " " + figure(height) +
           "\" font-family=\"sans-serif\" "
           "font-size=\"12\">\n<style>text{fill:#333}.in{fill:#000}.idle{fill:#888;fill-opacity:.15}"
           "@media(prefers-color-scheme:dark){text{fill:#ddd}}";
    for (const EventStyle& style : kEventStyles)
      svg_ += std::string(".") + letter(style.kind) + "{fill:" + style.colour + "}";
    const std::string title = timed_.id + ": " + shape_text(shape_) + "; " + makespan_text(timed_);
    svg_ += "</style>\n<title>" + xml_text(title) + "</title>\n";
    text(kLeft, 24, "start", title, " font-size=\"15\"");
    for (std::size_t stage = 0; stage < shape_.stages; ++stage) row(stage);
    time_axis(kTop + kRow * shape_.stages + 16);
    legend(height - 12);
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 1200, kLeft = 72, kRight = 32, kTop = 40, kBottom = 56, kRow = 26, kBar = 22;
  static constexpr double kCharacter = 7;  // of 12 pixels' sans-serif, about

  static std::string figure(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
  }

  [[nodiscard]] double x_of(Ticks time) const {
    return kLeft +
           (kWidth - kLeft - kRight) * static_cast<double>(time) / static_cast<double>(timed_.timeline.makespan);
  }

  void text(double x, double y, const char* anchor, const std::string& what, const char* more = "") {
    svg_ += "<text x=\"" + figure(x) + "\" y=\"" + figure(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" +
            xml_text(what) + "</text>\n";
  }

  void bar(double x, double y, double width, const std::string& kind, double opacity, const std::string& tip) {
    svg_ += "<rect class=\"" + kind + "\" x=\"" + figure(x) + "\" y=\"" + figure(y) + "\" width=\"" + figure(width) +
            "\" height=\"" + figure(kBar) + "\" fill-opacity=\"" + figure(opacity) + "\">" +
            (tip.empty() ? "" : "<title>" + xml_text(tip) + "</title>") + "</rect>\n";
  }

  void row(std::size_t stage) {
    const double y = kTop + kRow * static_cast<double>(stage);
    text(kLeft - 8, y + 15, "end", "stage " + std::to_string(stage));
    svg_ += "<rect class=\"idle\" x=\"" + figure(kLeft) + "\" y=\"" + figure(y) + "\" width=\"" +
            figure(kWidth - kLeft - kRight) + "\" height=\"" + figure(kBar) + "\"/>\n";
    for (std::size_t i = 0; i < timed_.schedule.order[stage].size(); ++i) {
      const PipelineEvent& event = timed_.schedule.order[stage][i];
      const PipelineTimeline::Span& span = timed_.timeline.spans[stage][i];
      const double x = x_of(span.start), width = x_of(span.end) - x;
      const double paler = shape_.chunks == 1 ? 0 : 0.6 * event.chunk / (shape_.chunks - 1);
      bar(x, y, std::max(0.1, width - 0.8), std::string(1, letter(event.kind)), 1 - paler,
          to_string(timed_.schedule, stage, event) + " at " + time_text(timed_, span.start));
      const std::string label = std::to_string(event.microbatch);
      if (width >= kCharacter * static_cast<double>(label.size()) + 2)
        text(x + width / 2, y + 15, "middle", label, " class=\"in\"");
    }
  }

  void time_axis(double y) {
    constexpr Ticks kSteps = 8;
    const Ticks step = std::max<Ticks>(1, timed_.timeline.makespan / kSteps);
    for (Ticks time = 0; time <= timed_.timeline.makespan; time += step)
      text(x_of(time), y, "middle", time_text(timed_, time));
  }

  // The kinds that there are.
  void legend(double y) {
    double x = kLeft;
    for (const EventStyle& style : kEventStyles) {
      const auto has = [&](const std::vector<PipelineEvent>& order) {
        return std::any_of(order.begin(), order.end(),
                           [&](const PipelineEvent& event) { return event.kind == style.kind; });
      };
      if (std::none_of(timed_.schedule.order.begin(), timed_.schedule.order.end(), has)) continue;
      bar(x, y - 16, kBar, std::string(1, letter(style.kind)), 1, "");
      text(x + kBar + 6, y, "start", std::string(name(style.kind)));
      x += kBar + 24 + kCharacter * static_cast<double>(name(style.kind).size());
    }
    if (shape_.chunks > 1) text(x, y, "start", "later chunks are paler");
  }

  const TimedSchedule& timed_;
  const ScheduleShape shape_;
  std::string svg_;
};

}  // namespace

std::string schedule_svg(const TimedSchedule& timed) { return ScheduleDrawing(timed).run(); }

}  // namespace meshwright::host
