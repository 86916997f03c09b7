#include "meshwright/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "meshwright/call_price.h"
#include "meshwright/gather_units.h"
#include "program/buckets.h"
#include "program/works.h"

namespace meshwright {

namespace {

constexpr std::size_t kStates = 9;

// What prices are asked of: gradients have buckets of the plan's own size, whatever else is packed that of the profile.
class Clock {
 public:
  Clock(const Program& program, const CostProfile& profile) : profile_(profile), reducing_(profile) { reducing_.bucket_bytes = program.bucket_bytes; }

  [[nodiscard]] const CostProfile& profile() const { return profile_; }
  [[nodiscard]] const CostProfile& of(const Instruction& move) const { return reduces_gradient(move) ? reducing_ : profile_; }

 private:
  const CostProfile& profile_;
  CostProfile reducing_;
};

ConversionProblem conversion_of(const Program& program, const Instruction& move, const Clock& clock) {
  const ShardedType& from = program.type(move.operands[0].value);
  return {program.mesh, from.atoms, clock.of(move), size_bytes(from.type.dtype), move.stream == Stream::communication};
}

// What the host takes to issue it. Views, what fills a bucket and all but one op of a fused kernel are issued with others.
Ticks host_ticks(const Program& program, const Instruction& instruction, Ticks takes, const Clock& clock) {
  if (takes == 0) return 0;
  const DeviceSpec& device = clock.profile().device;
  switch (instruction.kind()) {
    case InstructionKind::compute: return instruction.compute()->fused.launches ? to_ticks(device.host_launch_seconds) : 0;
    case InstructionKind::accumulate: return to_ticks(device.host_launch_seconds);
    case InstructionKind::move:
      return move_price(conversion_of(program, instruction, clock), program.type(instruction.operands[0].value).layout, *instruction.move()).host_ticks;
    default: return 0;
  }
}

// By instruction.
struct Prices {
  std::vector<Ticks> ticks, host_ticks;
};

// The times of one repetition of a segment: of each of its occurrences what it waited for, in a fixed order, and when it
// ended; then how far the streams are, and how long anybody waited.
struct Repetition {
  std::vector<Ticks> candidates;
  std::vector<std::size_t> first_candidate;  // by occurrence
  std::vector<Ticks> ends;   // less what computing slowed down
  std::vector<Ticks> leads;  // of what computes: how long the communication stream is at work beyond its start; less than 0 if it is done
  std::array<Ticks, kStates> state = {};
};

// What a step is like once it repeats itself: from one repetition to the next every time grows by a fixed amount, not the
// same one for all, since reductions may fall behind the computing further and further.
class Drawing {
 public:
  Drawing(const Program& program, const CostProfile& profile, Detail detail)
      : program_(program),
        device_(profile.device),
        detail_(detail),
        owners_(storages(program)),
        frames_(1 + program.order.fullest(Phase::forward).in_flight),
        used_until_(program.values.size() * static_cast<std::size_t>(frames_), 0),
        used_by_(used_until_.size(), kNone) {}

  // Segments [first, last) of the step, behind those that were drawn before. `prices` must outlive the call.
  void draw(std::size_t first, std::size_t last, const Prices& prices) {
    prices_ = &prices;
    for (std::size_t i = first; i < last; ++i) draw(program_.order.segments[i]);
  }

  // When all are.
  Timeline finish() {
    const Ticks end = std::max({computing(), communicating(), host()});
    timeline_.step_seconds = to_seconds(end);
    timeline_.communication_seconds = to_seconds(state_[kCommunication]);
    timeline_.waits_before_updates = to_seconds(state_[kWaits]);
    const Ticks device_end = std::max(computing(), communicating());
    timeline_.waits_at_end = to_seconds(state_[kWaitsAtEnd] + device_end - computing());
    timeline_.waits_for_host = to_seconds(state_[kWaitsForHost] + end - device_end);
    timeline_.host_seconds = to_seconds(host());
    timeline_.forward_seconds = to_seconds(state_[kForward]);
    std::vector<Span> in_turn(timeline_.spans.size());
    for (std::size_t i = 0; i < turns_.size(); ++i) in_turn[turns_[i]] = timeline_.spans[i];
    timeline_.spans = std::move(in_turn);
    return std::move(timeline_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  enum State : std::uint8_t { kComputing, kCommunicating, kHost, kCommunication, kWaits, kWaitsAtEnd, kWaitsForHost, kForward, kSlowed };

  Ticks& computing() { return state_[kComputing]; }
  Ticks& communicating() { return state_[kCommunicating]; }
  Ticks& host() { return state_[kHost]; }
  // By how much all computing so far has made what is in flight end later: times of the communication stream are kept without it, which changes nothing for
  // what has ended.
  Ticks& slowed() { return state_[kSlowed]; }

  void draw(const StepSegment& segment) {
    std::fill(used_by_.begin(), used_by_.end(), kNone);
    const std::vector<Occurrence> in_turn = occurrences(program_, segment.events, program_.order.microbatches);
    const std::vector<std::size_t> order = in_buckets(program_, in_turn);
    std::vector<Occurrence> all;
    for (const std::size_t place : order) all.push_back(in_turn[place]);
    std::vector<Repetition> known;
    std::int64_t steady = 0;  // repetitions in a row that grew like the one before them
    for (std::int64_t r = 0; r < segment.repeats; ++r) {
      Repetition& here = known.emplace_back();
      const std::size_t first = timeline_.spans.size();
      for (std::size_t i = 0; i < all.size(); ++i) {
        add({all[i].instruction, all[i].microbatch + r}, here);
        turns_.push_back(first + order[i]);
      }
      here.state = state_;
      if (detail_ == Detail::spans || !segment.is_steady() || known.size() < 3) continue;
      if (known.size() > 3) known.erase(known.begin());
      steady = grows_evenly(known) ? steady + 1 : 0;
      if (steady < frames_) continue;
      const std::int64_t skipped = std::min(segment.repeats - 1 - r, steady_for(known, all));
      skip(known, skipped);
      r += skipped;
    }
  }

  // Where the time of a value's storage stands: there are as many frames as microbatches may be in flight, and one more.
  [[nodiscard]] std::size_t place(ProgramValueId value, std::int64_t microbatch) const {
    return program_.place(owners_[value], (microbatch - skipped_) % frames_);
  }

  void add(const Occurrence& at, Repetition& here) {
    const Instruction& instruction = program_.instructions[at.instruction];
    const Ticks ticks = prices_->ticks[at.instruction];
    const bool overlaps = instruction.stream == Stream::communication;
    const std::int64_t microbatch = instruction.operands_from(at.microbatch);
    const Ticks front = std::max(computing(), host());
    host() += prices_->host_ticks[at.instruction];
    here.first_candidate.push_back(here.candidates.size());
    here.candidates.push_back(computing());
    // All updates are one kernel, which the gradients of all parameters are waited for.
    if (overlaps || begins_updates(instruction)) here.candidates.push_back(communicating());
    for (const ProgramValueId value : instruction.waits) here.candidates.push_back(used_until_[place(value, microbatch)] + slowed());
    const Ticks device_free = *std::max_element(here.candidates.begin() + static_cast<std::ptrdiff_t>(here.first_candidate.back()), here.candidates.end());
    here.candidates.push_back(host());
    const Ticks start = std::max(device_free, host());
    const Ticks lead = overlaps ? 0 : communicating() - start;
    here.leads.push_back(lead);
    const Span span{at, instruction.stream, start, overlaps ? ticks : beside(start, lead, ticks)};
    if (overlaps) {
      state_[kCommunication] += ticks;
      communicating() = span.end();
      for (const ProgramOperand& operand : instruction.operands) use(place(operand.value, microbatch), here, span);
      for (const ProgramValueId result : instruction.results) use(place(result, at.microbatch), here, span);
      in_flight_.push_back(timeline_.spans.size());
    } else {
      state_[instruction.phase == Phase::update ? kWaitsAtEnd : kWaits] += device_free - computing();
      state_[kWaitsForHost] += start - device_free;
      computing() = span.end();
    }
    if (instruction.phase == Phase::forward) state_[kForward] += std::max(computing(), host()) - front;
    here.ends.push_back(span.end() - slowed());
    timeline_.spans.push_back(span);
  }

  // What a kernel takes that begins now, while the communication stream has work for `lead` more: as long as both run, each takes longer by
  // its stretch. What is in flight ends later by that.
  Ticks beside(Ticks start, Ticks lead, Ticks ticks) {
    const double computing = device_.computing_stretch, communication = device_.communication_stretch;
    if (lead <= 0 || ticks == 0 || (computing == 1 && communication == 1)) return ticks;
    const auto work = static_cast<double>(ticks), behind = static_cast<double>(lead);
    const double both = std::min(behind * communication, work * computing);  // for so long both run
    const auto later = static_cast<Ticks>(both * (1 - 1 / communication));
    const auto moved = [&](Ticks time) {
      if (time <= start) return time;
      return time + std::min(later, static_cast<Ticks>(static_cast<double>(time - start) * (communication - 1)));
    };
    std::erase_if(in_flight_, [&](std::size_t at) { return timeline_.spans[at].end() <= start; });
    for (const std::size_t at : in_flight_) {
      Span& span = timeline_.spans[at];
      const Ticks end = moved(span.end());
      span.start = moved(span.start);
      span.ticks = end - span.start;
    }
    communicating() += later;
    slowed() += later;
    return ticks + static_cast<Ticks>(both * (1 - 1 / computing));
  }
  // From what lead on a kernel of so many ticks runs beside communication to its end.
  [[nodiscard]] Ticks longest(Ticks ticks) const {
    return static_cast<Ticks>(std::ceil(device_.computing_stretch / device_.communication_stretch * static_cast<double>(ticks)));
  }

  [[nodiscard]] bool begins_updates(const Instruction& instruction) { return instruction.kind() == InstructionKind::update && !std::exchange(updates_, true); }

  void use(std::size_t place, const Repetition& here, const Span& span) {
    used_until_[place] = span.end() - state_[kSlowed];
    used_by_[place] = static_cast<std::uint32_t>(here.ends.size());
  }

  static bool same_growth(const std::vector<Ticks>& a, const std::vector<Ticks>& b, const std::vector<Ticks>& c) {
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (c[i] - b[i] != b[i] - a[i]) return false;
    }
    return true;
  }

  // Of the last three repetitions.
  static bool grows_evenly(const std::vector<Repetition>& known) {
    const Repetition &a = known[0], &b = known[1], &c = known[2];
    return same_growth(a.candidates, b.candidates, c.candidates) && same_growth(a.ends, b.ends, c.ends) && same_growth(a.leads, b.leads, c.leads);
  }

  // How many further repetitions grow like the last one: until what was waited for is overtaken by what grows faster.
  std::int64_t steady_for(const std::vector<Repetition>& known, const std::vector<Occurrence>& all) const {
    const Repetition &before = known[1], &last = known[2];
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < last.first_candidate.size(); ++i) {
      const std::size_t begin = last.first_candidate[i], end = i + 1 < last.first_candidate.size() ? last.first_candidate[i + 1] : last.candidates.size();
      std::size_t latest = begin;
      const auto growth = [&](std::size_t c) { return last.candidates[c] - before.candidates[c]; };
      for (std::size_t c = begin; c < end; ++c) {
        if (std::pair(last.candidates[c], growth(c)) > std::pair(last.candidates[latest], growth(latest))) latest = c;
      }
      for (std::size_t c = begin; c < end; ++c) {
        if (growth(c) > growth(latest)) most = std::min(most, (last.candidates[latest] - last.candidates[c]) / (growth(c) - growth(latest)));
      }
      // A kernel that is stretched for a part of its time, or that will be, or no longer for all of it.
      const Ticks lead = last.leads[i], grows = lead - before.leads[i], most_lead = longest(prices_->ticks[all[i].instruction]);
      if (grows == 0 || (device_.computing_stretch == 1 && device_.communication_stretch == 1)) continue;
      if (lead <= 0 && grows > 0) most = std::min(most, -lead / grows);
      else if (lead >= most_lead && grows < 0) most = std::min(most, (lead - most_lead) / -grows);
      else if (lead > 0 && lead < most_lead) most = 0;
    }
    return most;
  }

  void skip(const std::vector<Repetition>& known, std::int64_t repetitions) {
    const Repetition &before = known[1], &last = known[2];
    for (std::size_t at = 0; at < used_until_.size(); ++at) {
      const std::uint32_t by = used_by_[at];
      if (by != kNone) used_until_[at] += repetitions * (last.ends[by] - before.ends[by]);
    }
    for (const State each : {kComputing, kCommunicating, kHost, kSlowed}) state_[each] += repetitions * (last.state[each] - before.state[each]);
    // What was waited in each repetition grows evenly itself.
    const std::array<Ticks, kStates>& first = known[0].state;
    for (const State each : {kCommunication, kWaits, kWaitsAtEnd, kWaitsForHost, kForward}) {
      const Ticks in_last = last.state[each] - before.state[each], growth = in_last - (before.state[each] - first[each]);
      state_[each] += repetitions * in_last + growth * (repetitions * (repetitions + 1) / 2);
    }
    skipped_ += repetitions;
  }

  const Program& program_;
  const Prices* prices_ = nullptr;
  const DeviceSpec& device_;
  const Detail detail_;
  const std::vector<ProgramValueId> owners_;
  const std::int64_t frames_;
  std::vector<Ticks> used_until_;               // by the communication stream, so far, less `slowed`
  std::vector<std::uint32_t> used_by_;  // which occurrence of the segment's last repetition did so last
  std::array<Ticks, kStates> state_ = {};        // when each stream is free; the sums of Timeline
  std::int64_t skipped_ = 0;
  bool updates_ = false;  // have begun
  std::vector<std::size_t> in_flight_;  // spans of the communication stream that may not have ended
  std::vector<std::size_t> turns_;  // of each span, where it stands in the order of the program
  Timeline timeline_;
};

}  // namespace

static Result<Ticks> instruction_ticks(const Program& program, const Instruction& instruction, const Work& work, const Clock& clock) {
  const CostProfile& profile = clock.profile();
  switch (instruction.kind()) {
    case InstructionKind::compute:
      return to_ticks(compute_seconds(profile, work));
    case InstructionKind::move: {
      if (std::get<MoveStep>(instruction.action).along) return Ticks{0};
      const Layout& from = program.type(instruction.operands[0].value).layout;
      return to_ticks(move_seconds(conversion_of(program, instruction, clock), from, *instruction.move()));
    }
    case InstructionKind::accumulate:
      if (instruction.takes_over()) return Ticks{0};
      return to_ticks(accumulate_seconds(profile, program.local_bytes(instruction.results[0])));
    case InstructionKind::update: {
      const ProgramParameter& parameter = program.parameters[instruction.parameter];
      const DType dtype = program.type(parameter.value).type.dtype;
      return to_ticks(update_seconds(profile, program.local(parameter.gradient).elements(), program.training.step_bytes(dtype), dtype));
    }
    case InstructionKind::send:
      return to_ticks(travel_seconds(profile, program.local_bytes(instruction.operands[0].value)));
    case InstructionKind::receive:  // As if it were sent now, but for gradients of shared weights: what is waited for besides, all stages together know (pipeline_step.h).
      if (instruction.phase == Phase::update || !std::get<Receive>(instruction.action).travels) return Ticks{0};
      return to_ticks(travel_seconds(profile, program.local_bytes(instruction.results[0])));
    case InstructionKind::carry:
    case InstructionKind::free:
      return Ticks{0};
    case InstructionKind::convert:
    case InstructionKind::load_parameter:
    case InstructionKind::store_gradient:
      break;
  }
  return bad_input("the program is not finished at '" + instruction.name + "'; run all passes before it");
}

Result<Ticks> instruction_ticks(const Program& program, const Instruction& instruction, const OpTable& ops, const CostProfile& profile) {
  const bool computes = instruction.kind() == InstructionKind::compute;
  return instruction_ticks(program, instruction, computes ? work_of(program, instruction, ops) : Work{}, Clock(program, profile));
}

// Parameters of a block that travel the same way are loaded by one collective, and all that are gathered behind the updates by one.
static void add_gather_latencies(const Program& program, std::vector<Ticks>& ticks) {
  std::map<std::tuple<Phase, AxisSet, std::string>, std::vector<std::size_t>> together;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const Move* move = instruction.move();
    if (move == nullptr || move->kind != MoveKind::all_gather || instruction.parameter == kNoId) continue;
    const std::string block = instruction.phase == Phase::update ? "" : block_of(program.parameters[instruction.parameter].name);
    together[{instruction.phase, move->axes(), block}].push_back(i);
  }
  for (const auto& [way, gathers] : together) {
    const Ticks latency = to_ticks(gather_latency_seconds(program.mesh, std::get<AxisSet>(way), static_cast<double>(gathers.size())));
    for (const std::size_t gather : gathers) ticks[gather] += latency;
  }
}

static std::vector<Ticks> all_host_ticks(const Program& program, const std::vector<Ticks>& ticks, const Clock& clock) {
  std::vector<Ticks> all;
  all.reserve(ticks.size());
  for (std::size_t i = 0; i < ticks.size(); ++i) all.push_back(host_ticks(program, program.instructions[i], ticks[i], clock));
  return all;
}

static Result<std::vector<Ticks>> all_ticks(const Program& program, const std::vector<Work>& works, const Clock& clock) {
  std::vector<Ticks> ticks;
  ticks.reserve(works.size());
  for (std::size_t i = 0; i < works.size(); ++i) {
    Result<Ticks> one = instruction_ticks(program, program.instructions[i], works[i], clock);
    if (!one) return one.error();
    ticks.push_back(*one);
  }
  add_gather_latencies(program, ticks);
  return ticks;
}

static Result<Prices> prices_of(const Program& program, const std::vector<Work>& works, const CostProfile& profile) {
  const Clock clock(program, profile);
  Result<std::vector<Ticks>> ticks = all_ticks(program, works, clock);
  if (!ticks) return ticks.error();
  std::vector<Ticks> host = all_host_ticks(program, *ticks, clock);
  return Prices{std::move(*ticks), std::move(host)};
}

Result<Timeline> make_timeline(const Program& program, const std::vector<Work>& works, const CostProfile& profile, Detail detail) {
  const Result<Prices> prices = prices_of(program, works, profile);
  if (!prices) return prices.error();
  Drawing drawing(program, profile, detail);
  drawing.draw(0, program.order.segments.size(), *prices);
  return drawing.finish();
}

Result<Timeline> make_timeline(const Program& program, const OpTable& ops, const CostProfile& profile, Detail detail) {
  return make_timeline(program, works_of(program, ops), profile, detail);
}

class BucketTimelines::Impl {
 public:
  Impl(const Program& program, const CostProfile& profile, Prices prices) : program_(program), profile_(profile), prices_(std::move(prices)), before_(program, profile, Detail::sums) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      if (reduces_gradient(program.instructions[i])) reductions_.push_back(i);
    }
    while (first_ < program.order.segments.size() && !has_reductions(program.order.segments[first_])) ++first_;
    before_.draw(0, first_, prices_);
  }

  [[nodiscard]] Result<Timeline> draw() const {
    Prices here = prices_;
    const Clock clock(program_, profile_);
    for (const std::size_t i : reductions_) {
      const Instruction& reduction = program_.instructions[i];
      const Result<Ticks> ticks = instruction_ticks(program_, reduction, Work{}, clock);
      if (!ticks) return ticks.error();
      here.ticks[i] = *ticks;
      here.host_ticks[i] = host_ticks(program_, reduction, *ticks, clock);
    }
    Drawing drawing = before_;
    drawing.draw(first_, program_.order.segments.size(), here);
    return drawing.finish();
  }

 private:
  [[nodiscard]] bool has_reductions(const StepSegment& segment) const {
    const std::vector<Occurrence> all = occurrences(program_, segment.events, program_.order.microbatches);
    return std::ranges::any_of(all, [&](const Occurrence& at) { return reduces_gradient(program_.instructions[at.instruction]); });
  }

  const Program& program_;
  const CostProfile& profile_;
  const Prices prices_;
  Drawing before_;                        // what comes before the first segment with reductions
  std::size_t first_ = 0;                 // that one
  std::vector<std::size_t> reductions_;  // instructions
};

Result<BucketTimelines> BucketTimelines::make(const Program& program, const std::vector<Work>& works, const CostProfile& profile) {
  Result<Prices> prices = prices_of(program, works, profile);
  if (!prices) return prices.error();
  return BucketTimelines(std::make_unique<Impl>(program, profile, std::move(*prices)));
}

BucketTimelines::BucketTimelines(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BucketTimelines::BucketTimelines(BucketTimelines&&) noexcept = default;
BucketTimelines::~BucketTimelines() = default;

Result<Timeline> BucketTimelines::draw() const { return impl_->draw(); }

}  // namespace meshwright
