#include "report/pipeline_report.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "foreign_text.h"
#include "report/schedule_svg.h"
#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kMostSpansDrawn = 100'000;  // events; no viewer shows more

// The time of all events of one kind of a stage, and their number.
struct Sum {
  Ticks ticks = 0;
  std::int64_t count = 0;

  [[nodiscard]] std::string each() const { return count == 0 ? "" : milliseconds(to_seconds(ticks) / static_cast<double>(count)); }
};

Sum phase_sum(const std::vector<StageSpan>& spans, Phase phase) {
  Sum sum;
  for (const StageSpan& span : spans) {
    if (span.event.phase != phase) continue;
    sum.ticks += span.end - span.start;
    ++sum.count;
  }
  return sum;
}

std::string microseconds(Ticks ticks) {
  char text[48];
  std::snprintf(text, sizeof text, "%.6f", to_seconds(ticks) * 1e6);
  return text;
}

std::string metadata(const char* what, std::size_t stage, int thread, const std::string& text) {
  return R"({"ph": "M", "pid": )" + std::to_string(stage) + R"(, "tid": )" + std::to_string(thread) + R"(, "name": ")" + what + R"(", "args": {"name": )" + json_string(text) + "}}";
}

std::string complete(std::size_t stage, int thread, Ticks start, Ticks end, const std::string& title, const std::string& category, std::int64_t microbatch) {
  return R"({"ph": "X", "pid": )" + std::to_string(stage) + R"(, "tid": )" + std::to_string(thread) + R"(, "ts": )" + microseconds(start) + R"(, "dur": )" + microseconds(end - start) +
         R"(, "name": )" + json_string(title) + R"(, "cat": )" + json_string(category) + R"(, "args": {"microbatch": )" + std::to_string(microbatch) + "}}";
}

std::string title_of(const StepEvent& event) {
  if (event.phase == Phase::update) return "update";
  return (event.phase == Phase::forward ? "F" : "B") + std::to_string(event.microbatch);
}

TimedSchedule drawn(const PipelinePlan& pipeline, const PipelineStep& step) {
  TimedSchedule timed;
  timed.id = pipeline.model.graph->name + ", " + pipeline.schedule;
  timed.in_seconds = true;
  timed.schedule.shape = {static_cast<std::uint32_t>(step.spans.size()), 1, static_cast<std::uint32_t>(pipeline.training.microbatches)};
  for (std::size_t stage = 0; stage < step.spans.size(); ++stage) {
    timed.schedule.positions.push_back(static_cast<std::uint32_t>(stage));
    std::vector<PipelineEvent>& order = timed.schedule.order.emplace_back();
    std::vector<PipelineTimeline::Span>& spans = timed.timeline.spans.emplace_back();
    Ticks busy = 0;
    for (const StageSpan& span : step.spans[stage]) {
      if (span.event.phase == Phase::update) continue;
      order.push_back({span.event.phase == Phase::forward ? PipelineEventKind::forward : PipelineEventKind::backward, 0, static_cast<std::uint32_t>(span.event.microbatch)});
      spans.push_back({span.start, span.end});
      busy += span.end - span.start;
      timed.timeline.makespan = std::max(timed.timeline.makespan, span.end);
    }
    timed.timeline.busy.push_back(busy);
    timed.timeline.in_flight.push_back(static_cast<std::uint32_t>(pipeline.in_flight[stage]));
  }
  return timed;
}

}  // namespace

std::string step_text(const PipelinePlan& pipeline, const PipelineStep& step) {
  std::vector<std::vector<std::string>> rows = {{"stage", "devices", "a forward", "a backward", "update", "busy", "waits", "in flight"}};
  for (std::size_t stage = 0; stage < step.spans.size(); ++stage) {
    const std::vector<StageSpan>& spans = step.spans[stage];
    rows.push_back({std::to_string(stage), std::to_string(pipeline.stages[stage].cluster.devices()), phase_sum(spans, Phase::forward).each(), phase_sum(spans, Phase::backward).each(),
                    phase_sum(spans, Phase::update).each(), milliseconds(step.busy_seconds[stage]), milliseconds(step.step_seconds - step.busy_seconds[stage]),
                    std::to_string(pipeline.in_flight[stage])});
  }
  std::string text = "Step of " + milliseconds(step.step_seconds) + ", " + std::to_string(pipeline.training.microbatches) + " microbatches by " + pipeline.schedule + "\n" + table_text(rows, 1);
  return text + "\nBubble " + percent(step.bubble) + " of all devices' time: " + percent(step.start) + " to fill and to drain, " + percent(step.imbalance) +
         " since stages take unequally long, " + percent(step.communication) + " for what is sent\n";
}

Json step_json(const PipelinePlan& pipeline, const PipelineStep& step) {
  Json json;
  std::int64_t ranks = 0, peak = 0;
  for (const Plan& plan : pipeline.stages) {
    ranks += plan.cluster.devices();
    peak = std::max(peak, plan.peak_bytes);
  }
  json.add("ranks", ranks).add("step_seconds", step.step_seconds).add("peak_bytes", peak);
  json.add("bubble", Json().add("share", step.bubble).add("imbalance", step.imbalance).add("communication", step.communication).add("start", step.start));
  Json::Array stages;
  for (std::size_t stage = 0; stage < step.spans.size(); ++stage) {
    Json::Array events;
    for (const StageSpan& span : step.spans[stage]) events.push_back(Json().add("event", title_of(span.event)).add("start_seconds", to_seconds(span.start)).add("end_seconds", to_seconds(span.end)));
    stages.push_back(Json().add("busy_seconds", step.busy_seconds[stage]).add("peak_bytes", pipeline.stages[stage].peak_bytes).add("in_flight", pipeline.in_flight[stage]).add("events", std::move(events)));
  }
  return json.add("stages", std::move(stages));
}

std::string step_trace(const PipelinePlan& pipeline, const PipelineStep& step) {
  constexpr int kComputing = 0, kSending = 1;
  std::vector<std::string> events;
  for (std::size_t stage = 0; stage < step.spans.size(); ++stage) {
    const std::int64_t devices = pipeline.stages[stage].cluster.devices();
    events.push_back(metadata("process_name", stage, kComputing, "stage " + std::to_string(stage) + ", each of " + std::to_string(devices) + " devices"));
    events.push_back(metadata("thread_name", stage, kComputing, "computing"));
    events.push_back(metadata("thread_name", stage, kSending, "sending"));
    for (const StageSpan& span : step.spans[stage]) {
      events.push_back(complete(stage, kComputing, span.start, span.end, title_of(span.event), name(span.event.phase), span.event.microbatch));
    }
    for (const SentSpan& sent : step.sent[stage]) {
      const std::string what = (sent.message.gradient ? "gradient of " : "") + sent.message.value + " to stage " + std::to_string(sent.message.to);
      events.push_back(complete(stage, kSending, sent.start, sent.end, what, "send", sent.microbatch));
    }
  }
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

Result<std::string> step_svg(const PipelinePlan& pipeline, const PipelineStep& step) {
  std::size_t events = 0;
  for (const auto& spans : step.spans) events += spans.size();
  if (events <= kMostSpansDrawn) return schedule_svg(drawn(pipeline, step));
  return bad_input("a picture of " + std::to_string(events) + " events shows nothing; at most " + std::to_string(kMostSpansDrawn) + " are drawn; --format json has them all");
}

}  // namespace meshwright::host
