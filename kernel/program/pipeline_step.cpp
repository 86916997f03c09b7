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
  // By phase.
  std::array<std::array<Ticks, kMeasured>, kPhases> events = {};  // of the first microbatch, one in between, the last
  Ticks update = 0;
  std::array<std::vector<Message>, kPhases> receives;
  std::array<std::vector<Travel>, kPhases> sends;
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
  const std::vector<Phase> phases = program.order.has_parts() ? std::vector{Phase::forward, Phase::input_gradient, Phase::weight_gradient} : std::vector{Phase::forward, Phase::backward};
  for (std::int64_t microbatch = 0; microbatch < few.order.microbatches; ++microbatch) {
    for (const Phase phase : phases) events.push_back({phase, microbatch});
  }
  events.push_back({Phase::update, few.order.microbatches - 1});
  const Result<Timeline> timeline = make_timeline(few, ops, profile, Detail::spans);
  if (!timeline) return timeline.error();
  std::map<std::pair<std::int64_t, Phase>, Ticks> ends;  // of computing
  Ticks own = 0, sent = 0;  // ends of what the stage does, and of what others receive
  for (const Span& span : timeline->spans) {
    const Instruction& instruction = few.instructions[span.at.instruction];
    Ticks& last = instruction.kind() == InstructionKind::send ? sent : own;
    last = std::max(last, span.end());
    Ticks& end = ends[{span.at.microbatch, instruction.phase}];
    if (span.stream == Stream::compute) end = std::max(end, span.end());
  }
  const Ticks whole = to_ticks(timeline->step_seconds), last = sent == whole ? own : whole;
  Ticks before = 0;
  for (const StepEvent& event : events) {
    const auto found = ends.find({event.microbatch, event.phase});
    const Ticks end = event.phase == Phase::update ? std::max(before, last) : std::max(before, found != ends.end() ? found->second : 0);
    if (event.phase == Phase::update) times.update = end - before;
    else times.events[at(event.phase)][static_cast<std::size_t>(event.microbatch)] = end - before;
    before = end;
  }
  return times;
}

class Simulation {
 public:
  // `groups`: of each stage. `orders`: of each group.
  Simulation(std::span<const Program> programs, const std::vector<StageTimes>& times, std::span<const std::uint32_t> groups, const GroupOrders& orders, bool travels)
      : programs_(programs), times_(times), groups_(groups), orders_(orders), travels_(travels), sent_(programs.size()) {}

  // The programs have a joint order, so that there is always one that can go on.
  std::vector<std::vector<StageSpan>> run() {
    std::vector<std::vector<StageSpan>> spans(orders_.size());
    std::size_t done = 0;
    while (done < orders_.size()) {
      done = 0;
      for (std::size_t group = 0; group < orders_.size(); ++group) {
        std::vector<StageSpan>& here = spans[group];
        while (here.size() < orders_[group].size() && run(orders_[group][here.size()], here)) {
        }
        done += here.size() == orders_[group].size() ? 1 : 0;
      }
    }
    update(spans);
    return spans;
  }

  std::vector<std::vector<SentSpan>> take_sent() { return std::move(sent_); }

 private:
  // The time that a message is under way, sent to devices of another group.
  [[nodiscard]] Ticks ticks_of(const Travel& sent) const { return travels_ && groups_[sent.message.from] != groups_[sent.message.to] ? sent.ticks : 0; }

  // False: something that it receives was not sent yet.
  bool run(const StageEvent& here, std::vector<StageSpan>& spans) {
    const StageTimes& times = times_[here.stage];
    const StepEvent& event = here.event;
    Ticks start = spans.empty() ? 0 : spans.back().end;
    for (const Message& message : times.receives[at(event.phase)]) {
      const auto arrival = arrivals_.find({message, event.microbatch});
      if (arrival == arrivals_.end()) return false;
      start = std::max(start, arrival->second);
    }
    const std::int64_t microbatches = programs_[here.stage].order.microbatches, measured = std::min(microbatches, kMeasured);
    const std::int64_t like = event.microbatch + 1 == microbatches ? measured - 1 : std::min<std::int64_t>(event.microbatch, 1);
    const Ticks end = start + times.events[at(event.phase)][static_cast<std::size_t>(like)];
    for (const Travel& sent : times.sends[at(event.phase)]) {
      const Ticks arrival = end + ticks_of(sent);
      arrivals_[{sent.message, event.microbatch}] = arrival;
      sent_[here.stage].push_back({sent.message, event.microbatch, end, arrival});
    }
    spans.push_back({here.stage, event, start, end});
    return true;
  }

  // Whoever shares a weight waits for all that do, and for the way there and back. Devices update their stages one after the other.
  void update(std::vector<std::vector<StageSpan>>& spans) const {
    std::vector<Ticks> before;  // by stage: when its devices have run the last backward
    for (const std::uint32_t group : groups_) before.push_back(spans[group].empty() ? 0 : spans[group].back().end);
    std::vector<Ticks> ready = before;
    for (const StageTimes& stage : times_) {
      for (const Travel& sent : stage.exchanges) {
        const Ticks ticks = ticks_of(sent), there = std::max(before[sent.message.from], before[sent.message.to]) + ticks;
        ready[sent.message.to] = std::max(ready[sent.message.to], sent.message.from < sent.message.to ? there + ticks : there);
      }
    }
    for (std::uint32_t stage = 0; stage < times_.size(); ++stage) {
      std::vector<StageSpan>& here = spans[groups_[stage]];
      const Ticks start = std::max(ready[stage], here.empty() ? 0 : here.back().end);
      here.push_back({stage, {Phase::update, programs_[stage].order.microbatches - 1}, start, start + times_[stage].update});
    }
  }

  std::span<const Program> programs_;
  const std::vector<StageTimes>& times_;
  const std::span<const std::uint32_t> groups_;
  const GroupOrders& orders_;
  const bool travels_;  // whether what is sent takes time
  std::map<std::pair<Message, std::int64_t>, Ticks> arrivals_;
  std::vector<std::vector<SentSpan>> sent_;  // by stage
};

Ticks end_of(const std::vector<std::vector<StageSpan>>& spans) {
  Ticks end = 0;
  for (const auto& group : spans) end = std::max(end, group.back().end);
  return end;
}

// The step of devices that wait for each other.
void add_waiting(Ticks end, Ticks at_once, PipelineStep& step, std::size_t stages) {
  std::vector<Ticks> of_stages(stages, 0);
  Ticks most = 0, all = 0;
  for (const auto& group : step.spans) {
    Ticks busy = 0;
    for (const StageSpan& span : group) {
      of_stages[span.stage] += span.end - span.start;
      busy += span.end - span.start;
    }
    most = std::max(most, busy);
    all += busy;
  }
  for (const Ticks busy : of_stages) step.busy_seconds.push_back(to_seconds(busy));
  if (end == 0) return;
  const auto groups = static_cast<double>(step.spans.size());
  const auto whole = groups * static_cast<double>(end);
  step.bubble = 1 - static_cast<double>(all) / whole;
  step.imbalance = (groups * static_cast<double>(most) - static_cast<double>(all)) / whole;
  step.communication = static_cast<double>(end - at_once) / static_cast<double>(end);
  step.start = step.bubble - step.imbalance - step.communication;
}

}  // namespace

Result<PipelineStep> simulate_stages(std::span<const Program> programs, const OpTable& ops, std::span<const CostProfile> profiles, const GroupOrders& orders) {
  if (const auto order = joint_order(programs, orders); !order) return order.error();
  const GroupOrders own = orders.empty() ? orders_of_own(programs) : orders;
  const std::vector<std::uint32_t> groups = groups_of_stages(own, programs.size()).value();
  std::vector<StageTimes> times;
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    Result<StageTimes> one = times_of(programs[stage], ops, profiles[stage]);
    if (!one) return one.error();
    times.push_back(std::move(*one));
  }
  PipelineStep step;
  Simulation simulation(programs, times, groups, own, true);
  step.spans = simulation.run();
  step.sent = simulation.take_sent();
  const Ticks end = end_of(step.spans);
  step.step_seconds = to_seconds(end);
  add_waiting(end, end_of(Simulation(programs, times, groups, own, false).run()), step, programs.size());
  return step;
}

}  // namespace meshwright
