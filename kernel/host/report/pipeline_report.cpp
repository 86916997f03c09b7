#include "report/pipeline_report.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "foreign_text.h"
#include "meshwright/stages.h"
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

// "F3"; "1F3" where the devices have several stages.
std::string title_of(const PipelinePlan& pipeline, const StageSpan& span) {
  const std::string stage = pipeline.orders.empty() ? "" : std::to_string(span.stage);
  if (span.event.phase == Phase::update) return (stage.empty() ? "" : stage + " ") + "update";
  return stage + to_string(span.event);
}

// That something is in.
std::vector<Phase> phases_of(const PipelineStep& step) {
  std::set<Phase> phases;
  for (const auto& spans : step.spans) {
    for (const StageSpan& span : spans) phases.insert(span.event.phase);
  }
  return {phases.begin(), phases.end()};
}

std::string column_of(Phase phase) { return phase == Phase::update ? name(phase) : std::string("a ") + name(phase); }

// What the devices of each group have.
struct Lane {
  std::vector<std::uint32_t> stages;
  std::int64_t devices = 0;
  std::int64_t in_flight = 0;  // microbatches of its stages together, at most
  Ticks busy = 0;

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::uint32_t stage : stages) text += (text.empty() ? "" : ", ") + std::to_string(stage);
    return text;
  }
};

std::vector<Lane> lanes_of(const PipelinePlan& pipeline, const PipelineStep& step) {
  std::vector<Lane> lanes(step.spans.size());
  const std::vector<std::uint32_t> groups = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  for (std::uint32_t stage = 0; stage < groups.size(); ++stage) {
    lanes[groups[stage]].stages.push_back(stage);
    lanes[groups[stage]].devices = pipeline.stages[stage].cluster.devices();
  }
  for (std::size_t group = 0; group < lanes.size(); ++group) {
    std::int64_t begun = 0;
    for (const StageSpan& span : step.spans[group]) {
      if (span.event.phase == Phase::forward) lanes[group].in_flight = std::max(lanes[group].in_flight, ++begun);
      if (ends_microbatch(span.event.phase)) --begun;
      lanes[group].busy += span.end - span.start;
    }
  }
  return lanes;
}

// The update is not drawn. Each group has as many stages.
TimedSchedule drawn(const PipelinePlan& pipeline, const PipelineStep& step, const std::vector<Lane>& lanes) {
  TimedSchedule timed;
  timed.id = pipeline.model.graph->name + ", " + pipeline.schedule;
  timed.in_seconds = true;
  timed.schedule.shape = {static_cast<std::uint32_t>(lanes.size()), static_cast<std::uint32_t>(lanes.front().stages.size()), static_cast<std::uint32_t>(pipeline.training.microbatches)};
  for (std::size_t group = 0; group < lanes.size(); ++group) {
    const std::vector<std::uint32_t>& stages = lanes[group].stages;
    timed.schedule.positions.insert(timed.schedule.positions.end(), stages.begin(), stages.end());
    std::vector<PipelineEvent>& order = timed.schedule.order.emplace_back();
    std::vector<PipelineTimeline::Span>& spans = timed.timeline.spans.emplace_back();
    Ticks busy = 0;
    for (const StageSpan& span : step.spans[group]) {
      if (span.event.phase == Phase::update) continue;
      const auto chunk = static_cast<std::uint32_t>(std::ranges::find(stages, span.stage) - stages.begin());
      order.push_back({static_cast<PipelineEventKind>(span.event.phase), chunk, static_cast<std::uint32_t>(span.event.microbatch)});
      spans.push_back({span.start, span.end});
      busy += span.end - span.start;
      timed.timeline.makespan = std::max(timed.timeline.makespan, span.end);
    }
    timed.timeline.busy.push_back(busy);
    timed.timeline.in_flight.push_back(static_cast<std::uint32_t>(lanes[group].in_flight));
  }
  return timed;
}

}  // namespace

std::string step_text(const PipelinePlan& pipeline, const PipelineStep& step) {
  std::vector<std::vector<std::string>> rows = {{pipeline.orders.empty() ? "stage" : "stages", "devices"}};
  const std::vector<Phase> phases = phases_of(step);
  for (const Phase phase : phases) rows[0].push_back(column_of(phase));
  rows[0].insert(rows[0].end(), {"busy", "waits", "in flight"});
  const std::vector<Lane> lanes = lanes_of(pipeline, step);
  for (std::size_t group = 0; group < lanes.size(); ++group) {
    const double busy = to_seconds(lanes[group].busy);
    std::vector<std::string>& row = rows.emplace_back();
    row = {lanes[group].text(), std::to_string(lanes[group].devices)};
    for (const Phase phase : phases) row.push_back(phase_sum(step.spans[group], phase).each());
    row.insert(row.end(), {milliseconds(busy), milliseconds(step.step_seconds - busy), std::to_string(lanes[group].in_flight)});
  }
  std::string text = "Step of " + milliseconds(step.step_seconds) + ", " + std::to_string(pipeline.training.microbatches) + " microbatches by " + pipeline.schedule + "\n" + table_text(rows, 1);
  return text + "\nBubble " + percent(step.bubble) + " of all devices' time: " + percent(step.start) + " to fill and to drain, " + percent(step.imbalance) +
         " since stages take unequally long, " + percent(step.communication) + " for what is sent\n";
}

Json step_json(const PipelinePlan& pipeline, const PipelineStep& step) {
  Json json;
  json.add("ranks", pipeline.cluster.devices()).add("step_seconds", step.step_seconds).add("peak_bytes", std::ranges::max(pipeline.peak_bytes));
  json.add("bubble", Json().add("share", step.bubble).add("imbalance", step.imbalance).add("communication", step.communication).add("start", step.start));
  Json::Array stages;
  const std::vector<Lane> lanes = lanes_of(pipeline, step);
  for (std::size_t group = 0; group < lanes.size(); ++group) {
    Json::Array events;
    for (const StageSpan& span : step.spans[group]) events.push_back(Json().add("event", title_of(pipeline, span)).add("start_seconds", to_seconds(span.start)).add("end_seconds", to_seconds(span.end)));
    stages.push_back(Json().add("busy_seconds", to_seconds(lanes[group].busy)).add("peak_bytes", pipeline.peak_bytes[group]).add("in_flight", lanes[group].in_flight).add("events", std::move(events)));
  }
  return json.add("stages", std::move(stages));
}

std::string step_trace(const PipelinePlan& pipeline, const PipelineStep& step) {
  constexpr int kComputing = 0, kSending = 1;
  std::vector<std::string> events;
  const std::vector<Lane> lanes = lanes_of(pipeline, step);
  for (std::size_t group = 0; group < lanes.size(); ++group) {
    const std::string stages = (lanes[group].stages.size() == 1 ? "stage " : "stages ") + lanes[group].text();
    events.push_back(metadata("process_name", group, kComputing, stages + ", each of " + std::to_string(lanes[group].devices) + " devices"));
    events.push_back(metadata("thread_name", group, kComputing, "computing"));
    events.push_back(metadata("thread_name", group, kSending, "sending"));
    for (const StageSpan& span : step.spans[group]) {
      events.push_back(complete(group, kComputing, span.start, span.end, title_of(pipeline, span), name(span.event.phase), span.event.microbatch));
    }
    for (const std::uint32_t stage : lanes[group].stages) {
      for (const SentSpan& sent : step.sent[stage]) {
        const std::string what = (sent.message.gradient ? "gradient of " : "") + sent.message.value + " to stage " + std::to_string(sent.message.to);
        events.push_back(complete(group, kSending, sent.start, sent.end, what, "send", sent.microbatch));
      }
    }
  }
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

Result<std::string> step_svg(const PipelinePlan& pipeline, const PipelineStep& step) {
  std::size_t events = 0;
  for (const auto& spans : step.spans) events += spans.size();
  const std::vector<Lane> lanes = lanes_of(pipeline, step);
  for (const Lane& lane : lanes) {
    if (lane.stages.size() != lanes.front().stages.size()) return bad_input("a picture shows groups of devices with as many stages each; --trace and --format json have any");
  }
  if (events <= kMostSpansDrawn) return schedule_svg(drawn(pipeline, step, lanes));
  return bad_input("a picture of " + std::to_string(events) + " events shows nothing; at most " + std::to_string(kMostSpansDrawn) + " are drawn; --format json has them all");
}

}  // namespace meshwright::host
