#include "meshwright/pipeline_step.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "meshwright/stages.h"
#include "meshwright/timeline.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMeasured = 3;  // microbatches: the first one, one in between, the last one

// A message as it travels: it is on its way for so long, and for so long no other one leaves or reaches these devices.
struct Travel {
  Message message;
  Ticks latency = 0, busy = 0;

  [[nodiscard]] Ticks ticks() const { return latency + busy; }
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

// A device of the stage that receives it takes its part from others, whoever they are: that is what its link has to carry.
Travel travel_of(const Message& message, std::span<const Program> programs, const CostProfile& profile) {
  const Program& program = programs[message.to];
  const auto received = std::ranges::find_if(program.instructions, [&](const Instruction& each) { return each.kind() == InstructionKind::receive && *each.message() == message; });
  const auto bytes = static_cast<double>(program.local_bytes(received->results[0]));
  return {message, to_ticks(profile.stage_latency_seconds), to_ticks(profile.stage_seconds_per_byte * bytes)};
}

void add_messages(std::span<const Program> programs, std::size_t stage, const CostProfile& profile, StageTimes& times) {
  for (const Instruction& instruction : programs[stage].instructions) {
    const Message* message = instruction.message();
    if (message == nullptr) continue;
    if (instruction.kind() == InstructionKind::send) (instruction.phase == Phase::update ? times.exchanges : times.sends[at(instruction.phase)]).push_back(travel_of(*message, programs, profile));
    else if (instruction.phase != Phase::update) times.receives[at(instruction.phase)].push_back(*message);
  }
}

// But for its messages, which are there at once.
Result<StageTimes> times_of(const Program& program, const OpTable& ops, CostProfile profile) {
  profile.stage_latency_seconds = profile.stage_seconds_per_byte = 0;
  StageTimes times;
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
  // Of computing: a free may wait for reductions, which keep nobody else from what was computed.
  std::map<std::pair<std::int64_t, Phase>, Ticks> ends;
  for (const Span& span : timeline->spans) {
    const Instruction& instruction = few.instructions[span.at.instruction];
    Ticks& end = ends[{span.at.microbatch, instruction.phase}];
    if (span.stream == Stream::compute && instruction.kind() != InstructionKind::free) end = std::max(end, span.end());
  }
  const Ticks last = to_ticks(timeline->step_seconds);
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
      : programs_(programs), times_(times), groups_(groups), orders_(orders), travels_(travels), spans_(orders.size()),
        is_at_work_(orders.size(), false), leaves_(orders.size(), 0), reaches_(orders.size(), 0), sent_(programs.size()) {}

  // In the order of time, so that links carry what was sent first. The programs have a joint order, so that there is always one that can go on.
  std::vector<std::vector<StageSpan>> run() {
    for (std::uint32_t group = 0; group < orders_.size(); ++group) begin_next(group);
    while (!ends_.empty()) {
      const std::uint32_t group = ends_.top().second;
      ends_.pop();
      send(spans_[group].back());
      begin_next(group);
      for (const std::uint32_t other : std::exchange(reached_, {})) begin_next(other);
    }
    update();
    return std::move(spans_);
  }

  std::vector<std::vector<SentSpan>> take_sent() { return std::move(sent_); }

 private:
  // Whether a message takes time: it is sent to devices of another group.
  [[nodiscard]] bool travels(const Message& message) const { return travels_ && groups_[message.from] != groups_[message.to]; }

  // The next event of a group that does nothing, if all that it receives was sent.
  void begin_next(std::uint32_t group) {
    std::vector<StageSpan>& spans = spans_[group];
    if (is_at_work_[group] || spans.size() == orders_[group].size()) return;
    const auto& [stage, event] = orders_[group][spans.size()];
    const StageTimes& times = times_[stage];
    Ticks start = spans.empty() ? 0 : spans.back().end;
    for (const Message& message : times.receives[at(event.phase)]) {
      const auto arrival = arrivals_.find({message, event.microbatch});
      if (arrival == arrivals_.end()) return;
      start = std::max(start, arrival->second);
    }
    const std::int64_t microbatches = programs_[stage].order.microbatches, measured = std::min(microbatches, kMeasured);
    const std::int64_t like = event.microbatch + 1 == microbatches ? measured - 1 : std::min<std::int64_t>(event.microbatch, 1);
    const Ticks end = start + times.events[at(event.phase)][static_cast<std::size_t>(like)];
    spans.push_back({stage, event, start, end});
    is_at_work_[group] = true;
    ends_.emplace(end, group);
  }

  // What an event that has just ended sends.
  void send(const StageSpan& ended) {
    is_at_work_[groups_[ended.stage]] = false;
    for (const Travel& sent : times_[ended.stage].sends[at(ended.event.phase)]) {
      const std::uint32_t from = groups_[ended.stage], to = groups_[sent.message.to];
      Ticks start = ended.end, arrival = start;
      if (travels(sent.message)) {
        start = std::max({start, leaves_[from], reaches_[to]});
        leaves_[from] = reaches_[to] = start + sent.busy;
        arrival = start + sent.ticks();
      }
      arrivals_[{sent.message, ended.event.microbatch}] = arrival;
      sent_[ended.stage].push_back({sent.message, ended.event.microbatch, start, arrival});
      reached_.insert(to);
    }
  }

  // Whoever shares a weight waits for all that do, and for the way there and back. Devices update their stages one after the other.
  void update() {
    std::vector<Ticks> before;  // by stage: when its devices have run the last backward
    for (const std::uint32_t group : groups_) before.push_back(spans_[group].empty() ? 0 : spans_[group].back().end);
    std::vector<Ticks> ready = before;
    for (const StageTimes& stage : times_) {
      for (const Travel& sent : stage.exchanges) {
        const Ticks ticks = travels(sent.message) ? sent.ticks() : 0, there = std::max(before[sent.message.from], before[sent.message.to]) + ticks;
        ready[sent.message.to] = std::max(ready[sent.message.to], sent.message.from < sent.message.to ? there + ticks : there);
      }
    }
    for (std::uint32_t stage = 0; stage < times_.size(); ++stage) {
      std::vector<StageSpan>& here = spans_[groups_[stage]];
      const Ticks start = std::max(ready[stage], here.empty() ? 0 : here.back().end);
      here.push_back({stage, {Phase::update, programs_[stage].order.microbatches - 1}, start, start + times_[stage].update});
    }
  }

  std::span<const Program> programs_;
  const std::vector<StageTimes>& times_;
  const std::span<const std::uint32_t> groups_;
  const GroupOrders& orders_;
  const bool travels_;  // whether what is sent takes time
  // By group.
  std::vector<std::vector<StageSpan>> spans_;
  std::vector<bool> is_at_work_;
  std::vector<Ticks> leaves_, reaches_;  // until when messages occupy its links, outwards and inwards
  std::priority_queue<std::pair<Ticks, std::uint32_t>, std::vector<std::pair<Ticks, std::uint32_t>>, std::greater<>> ends_;  // of what is at work
  std::set<std::uint32_t> reached_;  // groups that something was just sent to
  std::map<std::pair<Message, std::int64_t>, Ticks> arrivals_;
  std::vector<std::vector<SentSpan>> sent_;  // by stage
};

Ticks end_of(const std::vector<std::vector<StageSpan>>& spans) {
  Ticks end = 0;
  for (const auto& group : spans) end = std::max(end, group.back().end);
  return end;
}

// By group its devices, in the largest number that divides all of them.
std::vector<std::int64_t> shares_of(std::span<const Program> programs, std::span<const std::uint32_t> groups) {
  std::vector<std::int64_t> shares(std::ranges::max(groups) + 1, 0);
  std::int64_t divisor = 0;
  for (std::size_t stage = 0; stage < groups.size(); ++stage) {
    shares[groups[stage]] = programs[stage].mesh.devices();
    divisor = std::gcd(divisor, shares[groups[stage]]);
  }
  for (std::int64_t& share : shares) share /= divisor;
  return shares;
}

// The step of devices that wait for each other; `shares` by group.
void add_waiting(Ticks end, Ticks at_once, std::span<const std::int64_t> shares, PipelineStep& step, std::size_t stages) {
  std::vector<Ticks> of_stages(stages, 0);
  Ticks most = 0, all = 0;
  for (std::size_t group = 0; group < step.spans.size(); ++group) {
    Ticks busy = 0;
    for (const StageSpan& span : step.spans[group]) {
      of_stages[span.stage] += span.end - span.start;
      busy += span.end - span.start;
    }
    most = std::max(most, busy);
    all += shares[group] * busy;
  }
  for (const Ticks busy : of_stages) step.busy_seconds.push_back(to_seconds(busy));
  if (end == 0) return;
  const auto devices = static_cast<double>(std::reduce(shares.begin(), shares.end()));
  const auto whole = devices * static_cast<double>(end);
  step.bubble = 1 - static_cast<double>(all) / whole;
  step.imbalance = (devices * static_cast<double>(most) - static_cast<double>(all)) / whole;
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
    add_messages(programs, stage, profiles[stage], *one);
    times.push_back(std::move(*one));
  }
  PipelineStep step;
  Simulation simulation(programs, times, groups, own, true);
  step.spans = simulation.run();
  step.sent = simulation.take_sent();
  const Ticks end = end_of(step.spans);
  step.step_seconds = to_seconds(end);
  add_waiting(end, end_of(Simulation(programs, times, groups, own, false).run()), shares_of(programs, groups), step, programs.size());
  return step;
}

}  // namespace meshwright
