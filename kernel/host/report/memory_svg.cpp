#include "report/memory_svg.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "foreign_text.h"
#include "report/memory_text.h"
#include "units.h"

namespace meshwright::host {

namespace {

constexpr double kWidth = 960, kHeight = 480;
constexpr double kLeft = 84, kRight = 236, kTop = 64, kBottom = 48;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kMostColumns = 640;
constexpr double kCharacterWidth = 6.6;  // of 12 pixels' sans-serif, about

// Paul Tol's bright palette, which colour-blind readers tell apart, and a paler red for what is made again; by MemoryKind.
constexpr std::array<const char*, kMemoryKinds> kColours = {"#4477aa", "#66ccee", "#228833", "#aa3377",
                                                            "#999999", "#ee6677", "#ee99aa", "#997700", "#ccbb44"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" +
         xml_text(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\"/>\n";
}

// The largest of 1, 2, 5 and their multiples of a power of 2^10 or 10 that gives at least four steps.
double axis_step(double most) {
  double unit = 1;
  while (most / unit >= 1024) unit *= 1024;
  double step = unit / 256;
  for (const double tens : {0.01, 0.1, 1.0, 10.0, 100.0}) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (most / (tens * digit * unit) >= 4) step = std::max(step, tens * digit * unit);
    }
  }
  return std::max(1.0, step);
}

class Drawing {
 public:
  Drawing(const Program& program, const MemoryProfile& profile)
      : program_(program),
        profile_(profile),
        columns_(highest_of_columns(profile, kMostColumns)),
        top_bytes_(std::max(1.0, static_cast<double>(profile.peak_bytes) * 1.05)) {}

  std::string run() {
    svg_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n"
           "<style>text{fill:#333}.grid{stroke:#888;stroke-opacity:.3}.axis{stroke:#888}.phase{stroke:#888;stroke-"
           "dasharray:4 3}"
           ".peak{stroke:#cc3311;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>\n";
    svg_ += "<title>" + xml_text("Memory of " + program_.name) + "</title>\n";
    title();
    bytes_axis();
    for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) area(kind);
    phases();
    peak();
    legend();
    return svg_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x_of(std::size_t column) const {
    return kLeft +
           kPlotWidth * static_cast<double>(column) / static_cast<double>(std::max<std::size_t>(1, columns_.size()));
  }
  [[nodiscard]] double y_of(double bytes) const { return kTop + kPlotHeight * (1 - bytes / top_bytes_); }

  void title() {
    const std::int64_t devices = program_.mesh.devices();
    svg_ += text_at(kLeft, 24, "start", program_.name + ": bytes that one device holds over a training step",
                    " font-size=\"15\"");
    svg_ += text_at(
        kLeft, 42, "start",
        devices == 1 ? "on one device" : "of " + std::to_string(devices) + ", mesh " + to_string(program_.mesh));
  }

  void bytes_axis() {
    const double step = axis_step(top_bytes_);
    for (double bytes = 0; bytes <= top_bytes_; bytes += step) {
      const double y = y_of(bytes);
      svg_ += line(kLeft, y, kLeft + kPlotWidth, y, bytes == 0 ? "axis" : "grid");
      svg_ += text_at(kLeft - 6, y + 4, "end", size_text(static_cast<std::int64_t>(bytes)));
    }
  }

  // Steps from the left to the right, each column as wide as its part of the program; a step that does not change the
  // height goes on with the one before it.
  std::string steps(const std::vector<std::string>& heights, bool backward) const {
    std::string path;
    const std::size_t count = heights.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t column = backward ? count - 1 - i : i;
      const std::size_t next = backward ? column - 1 : column + 1;
      path += i == 0 || heights[column] != heights[backward ? column + 1 : column - 1] ? "V" + heights[column] : "";
      if (i + 1 == count || heights[next] != heights[column])
        path += "H" + number(x_of(backward ? column : column + 1));
    }
    return path;
  }

  // One kind on top of those before it.
  void area(std::size_t kind) {
    if (!is_drawn(kind)) return;
    std::vector<std::string> upper, lower;
    for (const std::size_t column : columns_) {
      const MemorySplit& split = profile_.curve[column].held;
      double below = 0;
      for (std::size_t k = 0; k < kind; ++k) below += static_cast<double>(split.bytes[k]);
      lower.push_back(number(y_of(below)));
      upper.push_back(number(y_of(below + static_cast<double>(split.bytes[kind]))));
    }
    svg_ += "<path fill=\"" + std::string(kColours[kind]) + "\" d=\"M" + number(kLeft) + " " + lower.front() +
            steps(upper, false) + steps(lower, true) + "Z\"/>\n";
  }

  [[nodiscard]] bool is_drawn(std::size_t kind) const {
    return std::any_of(columns_.begin(), columns_.end(),
                       [&](std::size_t at) { return profile_.curve[at].held.bytes[kind] != 0; });
  }

  void phases() {
    for (std::size_t i = 0; i < columns_.size();) {
      const std::size_t end = end_of_event(program_, profile_, columns_, i);
      if (i > 0) svg_ += line(x_of(i), kTop, x_of(i), kTop + kPlotHeight, "phase");
      const double middle = (x_of(i) + x_of(end)) / 2;
      if (x_of(end) - x_of(i) > 48) svg_ += text_at(middle, kTop + kPlotHeight + 18, "middle", event_text(program_, profile_.curve[columns_[i]].at));
      i = end;
    }
    svg_ += text_at(kLeft + kPlotWidth / 2, kHeight - 10, "middle",
                    std::to_string(profile_.curve.size()) + " instructions, in order" + left_out_text(program_));
  }

  void peak() {
    const auto at = std::find(columns_.begin(), columns_.end(), profile_.peak);
    if (at == columns_.end()) return;
    const double x = (x_of(static_cast<std::size_t>(at - columns_.begin())) +
                      x_of(static_cast<std::size_t>(at - columns_.begin()) + 1)) /
                     2;
    svg_ += line(x, kTop - 4, x, kTop + kPlotHeight, "peak");
    // Above the mark, but within the drawing, whatever the length of the node's name.
    std::string text = "peak " + size_text(profile_.peak_bytes) + " in " + peak_place(program_, profile_);
    const auto fits = static_cast<std::size_t>((kWidth - kLeft) / kCharacterWidth);
    if (text.size() > fits) {
      std::size_t end = fits - 3;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a UTF-8 character
      text = text.substr(0, end) + "...";
    }
    const double width = static_cast<double>(text.size()) * kCharacterWidth;
    svg_ += text_at(std::clamp(x - width / 2, kLeft, kWidth - width), kTop - 8, "start", text);
  }

  void legend() {
    double y = kTop + 12;
    const double x = kLeft + kPlotWidth + 16;
    svg_ += text_at(x, y, "start", "held at the peak");
    for (std::size_t kind = kMemoryKinds; kind-- > 0;) {
      if (!is_drawn(kind)) continue;
      y += 20;
      svg_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y - 10) + "\" width=\"12\" height=\"12\" fill=\"" +
              kColours[kind] + "\"/>\n";
      svg_ += text_at(x + 18, y, "start",
                      std::string(name(static_cast<MemoryKind>(kind))) + " " +
                          size_text(profile_.curve[profile_.peak].held.bytes[kind]));
    }
  }

  const Program& program_;
  const MemoryProfile& profile_;
  const std::vector<std::size_t> columns_;
  const double top_bytes_;
  std::string svg_;
};

}  // namespace

std::string memory_svg(const Program& program, const MemoryProfile& profile) { return Drawing(program, profile).run(); }

}  // namespace meshwright::host
