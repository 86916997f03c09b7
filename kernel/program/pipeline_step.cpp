#include "meshwright/pipeline_step.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "meshwright/stages.h"
#include "meshwright/timeline.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMeasured = 3;  // microbatches: the first one, one in between, the last one

struct Travel {
  Message message;
  Ticks ticks = 0;
};

// What the events of one stage take, and what they wait for and send on.
struct StageTimes {
  std::array<std::array<Ticks, kMeasured>, 2> events = {};  // of forwards and backwards: the first, one in between, the last
  Ticks update = 0;
  std::array<std::vector<Message>, 2> receives;
  std::array<std::vector<Travel>, 2> sends;
  std::vector<Travel> exchanges;  // of shared weights: those that it sends
};

std::size_t at(Phase phase) { return static_cast<std::size_t>(phase); }

Result<StageTimes> times_of(const Program& program, const OpTable& ops, const CostProfile& profile) {
  StageTimes times;
  for (const Instruction& instruction : program.instructions) {
    const Message* message = instruction.message();
    if (message == nullptr) continue;
    const Result<Ticks> ticks = instruction_ticks(program, instruction, ops, profile);
    if (!ticks) return ticks.error();
    const bool sends = instruction.kind() == InstructionKind::send;
    if (instruction.phase == Phase::update) {
      if (sends) times.exchanges.push_back({*message, *ticks});
    } else if (sends) {
      times.sends[at(instruction.phase)].push_back({*message, *ticks});
    } else {
      times.receives[at(instruction.phase)].push_back(*message);
    }
  }
  Program few = program;
  few.order.microbatches = std::min(program.order.microbatches, kMeasured);
  few.order.segments.assign(1, {});
  std::vector<StepEvent>& events = few.order.segments[0].events;
  for (std::int64_t microbatch = 0; microbatch < few.order.microbatches; ++microbatch) {
    for (const Phase phase : {Phase::forward, Phase::backward}) events.push_back({phase, microbatch});
  }
  events.push_back({Phase::update, few.order.microbatches - 1});
  const Result<Timeline> timeline = make_timeline(few, ops, profile, Detail::spans);
  if (!timeline) return timeline.error();
  std::map<std::pair<std::int64_t, Phase>, Ticks> ends;  // of computing
  for (const Span& span : timeline->spans) {
    const Phase phase = few.instructions[span.at.instruction].phase;
    Ticks& end = ends[{span.at.microbatch, phase}];
    if (span.stream == Stream::compute) end = std::max(end, span.end());
  }
  Ticks before = 0;
  for (const StepEvent& event : events) {
    const auto found = ends.find({event.microbatch, event.phase});
    const Ticks end = event.phase == Phase::update ? to_ticks(timeline->step_seconds) : std::max(before, found != ends.end() ? found->second : 0);
    if (event.phase == Phase::update) times.update = end - before;
    else times.events[at(event.phase)][static_cast<std::size_t>(event.microbatch)] = end - before;
    before = end;
  }
  return times;
}

class Simulation {
 public:
  Simulation(std::span<const Program> programs, const std::vector<StageTimes>& times, bool travels) : programs_(programs), times_(times), travels_(travels), sent_(programs.size()) {}

  // The programs have a joint order, so that there is always one that can go on.
  std::vector<std::vector<StageSpan>> run() {
    const std::size_t stages = programs_.size();
    std::vector<std::vector<StepEvent>> orders;
    for (const Program& program : programs_) orders.push_back(program.order.events());
    std::vector<std::vector<StageSpan>> spans(stages);
    std::size_t done = 0;
    while (done < stages) {
      done = 0;
      for (std::size_t stage = 0; stage < stages; ++stage) {
        std::vector<StageSpan>& here = spans[stage];
        while (orders[stage][here.size()].phase != Phase::update && run(stage, orders[stage][here.size()], here)) {
        }
        done += orders[stage][here.size()].phase == Phase::update ? 1 : 0;
      }
    }
    update(orders, spans);
    return spans;
  }

  std::vector<std::vector<SentSpan>> take_sent() { return std::move(sent_); }

 private:
  // False: something that it receives was not sent yet.
  bool run(std::size_t stage, const StepEvent& event, std::vector<StageSpan>& spans) {
    const StageTimes& times = times_[stage];
    Ticks start = spans.empty() ? 0 : spans.back().end;
    for (const Message& message : times.receives[at(event.phase)]) {
      const auto arrival = arrivals_.find({message, event.microbatch});
      if (arrival == arrivals_.end()) return false;
      start = std::max(start, arrival->second);
    }
    const std::int64_t microbatches = programs_[stage].order.microbatches, measured = std::min(microbatches, kMeasured);
    const std::int64_t like = event.microbatch + 1 == microbatches ? measured - 1 : std::min<std::int64_t>(event.microbatch, 1);
    const Ticks end = start + times.events[at(event.phase)][static_cast<std::size_t>(like)];
    for (const Travel& sent : times.sends[at(event.phase)]) {
      const Ticks arrival = end + (travels_ ? sent.ticks : 0);
      arrivals_[{sent.message, event.microbatch}] = arrival;
      sent_[stage].push_back({sent.message, event.microbatch, end, arrival});
    }
    spans.push_back({event, start, end});
    return true;
  }

  // Whoever shares a weight waits for all that do, and for the way there and back.
  void update(const std::vector<std::vector<StepEvent>>& orders, std::vector<std::vector<StageSpan>>& spans) const {
    std::vector<Ticks> ready;
    for (const auto& stage : spans) ready.push_back(stage.empty() ? 0 : stage.back().end);
    const std::vector<Ticks> before = ready;
    for (std::size_t stage = 0; stage < spans.size(); ++stage) {
      for (const Travel& sent : times_[stage].exchanges) {
        const Ticks there = std::max(before[sent.message.from], before[sent.message.to]) + (travels_ ? sent.ticks : 0);
        ready[sent.message.to] = std::max(ready[sent.message.to], sent.message.from < sent.message.to ? there + (travels_ ? sent.ticks : 0) : there);
      }
    }
    for (std::size_t stage = 0; stage < spans.size(); ++stage) {
      const Ticks start = ready[stage];
      spans[stage].push_back({orders[stage].back(), start, start + times_[stage].update});
    }
  }

  std::span<const Program> programs_;
  const std::vector<StageTimes>& times_;
  const bool travels_;  // whether what is sent takes time
  std::map<std::pair<Message, std::int64_t>, Ticks> arrivals_;
  std::vector<std::vector<SentSpan>> sent_;  // by stage
};

Ticks end_of(const std::vector<std::vector<StageSpan>>& spans) {
  Ticks end = 0;
  for (const auto& stage : spans) end = std::max(end, stage.back().end);
  return end;
}

}  // namespace

Result<PipelineStep> simulate_stages(std::span<const Program> programs, const OpTable& ops, std::span<const CostProfile> profiles) {
  if (const auto order = joint_order(programs); !order) return order.error();
  std::vector<StageTimes> times;
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    Result<StageTimes> one = times_of(programs[stage], ops, profiles[stage]);
    if (!one) return one.error();
    times.push_back(std::move(*one));
  }
  PipelineStep step;
  Simulation simulation(programs, times, true);
  step.spans = simulation.run();
  step.sent = simulation.take_sent();
  const Ticks end = end_of(step.spans), at_once = end_of(Simulation(programs, times, false).run());
  step.step_seconds = to_seconds(end);
  Ticks most = 0, all = 0;
  for (const auto& stage : step.spans) {
    const Ticks busy = std::accumulate(stage.begin(), stage.end(), Ticks{0}, [](Ticks sum, const StageSpan& span) { return sum + span.end - span.start; });
    step.busy_seconds.push_back(to_seconds(busy));
    most = std::max(most, busy);
    all += busy;
  }
  const auto stages = static_cast<double>(programs.size());
  const auto whole = stages * static_cast<double>(end);
  if (end == 0) return step;
  step.bubble = 1 - static_cast<double>(all) / whole;
  step.imbalance = (stages * static_cast<double>(most) - static_cast<double>(all)) / whole;
  step.communication = static_cast<double>(end - at_once) / static_cast<double>(end);
  step.start = step.bubble - step.imbalance - step.communication;
  return step;
}

}  // namespace meshwright
