// What a schedule does, event by event: whether it can run, with how much room, and when what happens.
#include <algorithm>
#include <limits>
#include <optional>

#include "meshwright/schedule.h"

namespace meshwright {

namespace {

constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kMostLinks = 6;  // of a deadlock's circle that a message shows
constexpr Ticks kNotYet = -1;
constexpr TickSum kMostTicksInAll = TickSum{1} << 61;

bool is_forward(const PipelineEvent& event) { return event.kind == PipelineEventKind::forward; }
// Makes the gradient of its chunk's input.
bool sends_back(const PipelineEvent& event) {
  return event.kind == PipelineEventKind::backward || event.kind == PipelineEventKind::input_gradient;
}
// Nothing more is held for its chunk and microbatch.
bool lets_go(const PipelineEvent& event) {
  return event.kind == PipelineEventKind::backward || event.kind == PipelineEventKind::weight_gradient;
}

std::string at(const PipelineSchedule& schedule, std::size_t stage, std::size_t place) {
  return "stage " + std::to_string(stage) + ", event " + std::to_string(place) + " (" +
         to_string(schedule, stage, schedule.order[stage][place]) + ")";
}

Status check_positions(const PipelineSchedule& schedule) {
  const std::uint32_t count = schedule.shape.positions();
  if (schedule.positions.size() != count || schedule.order.size() != schedule.shape.stages) {
    return bad_input("the schedule has " + std::to_string(schedule.positions.size()) + " positions and orders of " +
                     std::to_string(schedule.order.size()) + " stages; its shape says " + std::to_string(count) +
                     " and " + std::to_string(schedule.shape.stages));
  }
  std::vector<bool> seen(count);
  for (const std::uint32_t position : schedule.positions) {
    if (position >= count || seen[position]) {
      return bad_input("position " + std::to_string(position) +
                       " is not on exactly one stage; there are those from 0 to " + std::to_string(count - 1));
    }
    seen[position] = true;
  }
  return Done{};
}

// Why an event of a kind can't follow those of the same position and microbatch that `seen` has, a bit for each kind;
// "" if it can.
std::string_view what_is_wrong(PipelineEventKind kind, unsigned seen) {
  const auto has = [seen](PipelineEventKind earlier) { return (seen >> static_cast<unsigned>(earlier) & 1U) != 0; };
  using enum PipelineEventKind;
  if (has(kind)) return "comes twice";
  if (kind == forward) return "";
  if (!has(forward)) return "comes before its forward";
  if (kind == weight_gradient) return has(input_gradient) ? "" : "comes before its input gradient";
  return has(backward) || has(input_gradient) ? "is a second backward; it is one event, or two parts" : "";
}

// Every event once, and those of one position and microbatch in their order.
Status check_events(const PipelineSchedule& schedule) {
  const ScheduleShape& shape = schedule.shape;
  std::vector<std::uint8_t> seen(std::size_t{shape.positions()} * shape.microbatches);
  for (std::size_t stage = 0; stage < shape.stages; ++stage) {
    for (std::size_t place = 0; place < schedule.order[stage].size(); ++place) {
      const PipelineEvent& event = schedule.order[stage][place];
      if (event.chunk >= shape.chunks || event.microbatch >= shape.microbatches) {
        return bad_input("stage " + std::to_string(stage) + ", event " + std::to_string(place) + " is of chunk " +
                         std::to_string(event.chunk) + " and microbatch " + std::to_string(event.microbatch) +
                         "; the schedule has " + std::to_string(shape.chunks) + " and " +
                         std::to_string(shape.microbatches));
      }
      std::uint8_t& bits =
          seen[std::size_t{schedule.position(stage, event.chunk)} * shape.microbatches + event.microbatch];
      const std::string_view wrong = what_is_wrong(event.kind, bits);
      if (!wrong.empty()) return bad_input(at(schedule, stage, place) + " " + std::string(wrong));
      bits = static_cast<std::uint8_t>(bits | 1U << static_cast<unsigned>(event.kind));
    }
  }
  constexpr unsigned kWhole = 0b0011, kInParts = 0b1101;  // the bits of a forward with its backward
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == kWhole || seen[i] == kInParts) continue;
    const char* missing = seen[i] == 0 ? "forward" : seen[i] == 0b0101 ? "weight gradient" : "backward";
    return bad_input("position " + std::to_string(i / shape.microbatches) + " has no " + missing + " of microbatch " +
                     std::to_string(i % shape.microbatches));
  }
  return Done{};
}

// Runs every stage as far as it gets, again and again where something came for it. Expects what check_events checks.
class Replay {
 public:
  // `ticks` is by position, `room` what runs_with_room bounds. The time of an event does not depend on the order in
  // which the stages are run here, as long as room has no limit.
  Replay(const PipelineSchedule& schedule, std::span<const PositionTicks> ticks, std::uint32_t room)
      : schedule_(schedule),
        ticks_(ticks),
        room_(room),
        last_(schedule.shape.positions() - 1),
        stage_of_(last_ + std::size_t{1}),
        forward_ends_(stage_of_.size() * schedule.shape.microbatches, kNotYet),
        backward_ends_(forward_ends_),
        outputs_waiting_(stage_of_.size()),
        gradients_waiting_(stage_of_.size()),
        next_(schedule.shape.stages),
        is_queued_(schedule.shape.stages) {
    for (std::size_t i = 0; i < schedule.positions.size(); ++i) {
      stage_of_[schedule.positions[i]] = static_cast<std::uint32_t>(i / schedule.shape.chunks);
    }
    spans.resize(schedule.shape.stages);
    for (std::size_t stage = 0; stage < spans.size(); ++stage) spans[stage].reserve(schedule.order[stage].size());
  }

  std::vector<std::vector<PipelineTimeline::Span>> spans;

  // Error: bad_input, the events that wait for each other.
  Status run() {
    for (std::uint32_t stage = schedule_.shape.stages; stage-- > 0;) wake(stage);
    while (!queue_.empty()) {
      const std::uint32_t stage = queue_.back();
      queue_.pop_back();
      is_queued_[stage] = false;
      while (next_[stage] < schedule_.order[stage].size() && !waits_for(stage)) step(stage);
    }
    for (std::uint32_t stage = 0; stage < schedule_.shape.stages; ++stage) {
      if (next_[stage] < schedule_.order[stage].size()) return deadlock(stage);
    }
    return Done{};
  }

 private:
  struct Wait {
    std::uint32_t stage;  // that must do something first
    const char* what;
  };

  const PipelineEvent& next_event(std::size_t stage) const { return schedule_.order[stage][next_[stage]]; }
  std::size_t slot(std::uint32_t position, const PipelineEvent& event) const {
    return std::size_t{position} * schedule_.shape.microbatches + event.microbatch;
  }

  // What the stage's next event waits for; nothing if it can run.
  std::optional<Wait> waits_for(std::uint32_t stage) const {
    const PipelineEvent& event = next_event(stage);
    const std::uint32_t position = schedule_.position(stage, event.chunk);
    if (is_forward(event)) {
      if (position > 0 && forward_ends_[slot(position - 1, event)] == kNotYet)
        return Wait{stage_of_[position - 1], "the output"};
      if (position < last_ && !has_room(outputs_waiting_[position + 1], stage, stage_of_[position + 1]))
        return Wait{stage_of_[position + 1], "room for the output"};
    } else if (sends_back(event)) {
      if (position < last_ && backward_ends_[slot(position + 1, event)] == kNotYet)
        return Wait{stage_of_[position + 1], "the gradient"};
      if (position > 0 && !has_room(gradients_waiting_[position - 1], stage, stage_of_[position - 1]))
        return Wait{stage_of_[position - 1], "room for the gradient"};
    }
    return std::nullopt;
  }

  bool has_room(std::uint32_t waiting, std::uint32_t sender, std::uint32_t receiver) const {
    return sender == receiver || waiting < room_;
  }

  // Runs the stage's next event.
  void step(std::uint32_t stage) {
    const PipelineEvent& event = next_event(stage);
    const std::uint32_t position = schedule_.position(stage, event.chunk);
    PipelineTimeline::Span span;
    if (!spans[stage].empty()) span.start = spans[stage].back().end;
    if (is_forward(event)) {
      if (position > 0) {
        span.start = std::max(span.start, forward_ends_[slot(position - 1, event)]);
        --outputs_waiting_[position];
        wake(stage_of_[position - 1]);
      }
      span.end = span.start + ticks_of(position).forward;
      forward_ends_[slot(position, event)] = span.end;
      if (position < last_) {
        ++outputs_waiting_[position + 1];
        wake(stage_of_[position + 1]);
      }
    } else if (sends_back(event)) {
      if (position < last_) {
        span.start = std::max(span.start, backward_ends_[slot(position + 1, event)]);
        --gradients_waiting_[position];
        wake(stage_of_[position + 1]);
      }
      span.end = span.start + (event.kind == PipelineEventKind::backward ? ticks_of(position).backward
                                                                         : ticks_of(position).input_gradient);
      backward_ends_[slot(position, event)] = span.end;
      if (position > 0) {
        ++gradients_waiting_[position - 1];
        wake(stage_of_[position - 1]);
      }
    } else {
      span.end = span.start + ticks_of(position).weight_gradient;
    }
    spans[stage].push_back(span);
    ++next_[stage];
  }

  PositionTicks ticks_of(std::uint32_t position) const { return ticks_.empty() ? PositionTicks{} : ticks_[position]; }

  void wake(std::uint32_t stage) {
    if (is_queued_[stage]) return;
    is_queued_[stage] = true;
    queue_.push_back(stage);
  }

  // Of the stages that wait, those of one circle.
  Error deadlock(std::uint32_t stage) const {
    std::vector<bool> seen(schedule_.shape.stages);
    while (!seen[stage]) {
      seen[stage] = true;
      stage = waits_for(stage)->stage;
    }
    std::string text = "the stages wait for each other: stage " + std::to_string(stage);
    const std::uint32_t first = stage;
    for (std::size_t link = 0; link == 0 || stage != first; ++link) {
      if (link == kMostLinks) return bad_input(text + ", ...");
      const PipelineEvent& event = next_event(stage);
      const Wait wait = *waits_for(stage);
      text += std::string(link == 0 ? "" : ", which") + " waits at its event " + std::to_string(next_[stage]) + " (" +
              to_string(schedule_, stage, event) + ") for " + wait.what + " of microbatch " +
              std::to_string(event.microbatch) + " on stage " + std::to_string(wait.stage);
      stage = wait.stage;
    }
    return bad_input(text);
  }

  const PipelineSchedule& schedule_;
  const std::span<const PositionTicks> ticks_;
  const std::uint32_t room_;
  const std::uint32_t last_;                                        // position
  std::vector<std::uint32_t> stage_of_;                             // by position
  std::vector<Ticks> forward_ends_;                                 // by position and microbatch
  std::vector<Ticks> backward_ends_;                                // of the input's gradient, likewise
  std::vector<std::uint32_t> outputs_waiting_, gradients_waiting_;  // in front of each position
  std::vector<std::size_t> next_;                                   // by stage
  std::vector<bool> is_queued_;                                     // by stage
  std::vector<std::uint32_t> queue_;                                // stages for which something may have come
};

Status check_ticks(const PipelineSchedule& schedule, std::span<const PositionTicks> ticks) {
  if (ticks.size() != schedule.shape.positions()) {
    return bad_input("a schedule of " + std::to_string(schedule.shape.positions()) +
                     " positions can't be timed by those of " + std::to_string(ticks.size()));
  }
  TickSum sum = 0;
  for (std::size_t position = 0; position < ticks.size(); ++position) {
    const PositionTicks& of = ticks[position];
    for (const Ticks value : {of.forward, of.backward, of.input_gradient, of.weight_gradient}) {
      if (value < 0) return bad_input("the ticks of position " + std::to_string(position) + " are negative");
      sum += TickSum{value} * schedule.shape.microbatches;
    }
  }
  if (sum >= kMostTicksInAll) return bad_input("the ticks of all events add up to 2^61 or more");
  return Done{};
}

// Of one stage's order.
std::uint32_t most_in_flight(std::span<const PipelineEvent> order) {
  std::uint32_t held = 0, most = 0;
  for (const PipelineEvent& event : order) {
    if (is_forward(event)) most = std::max(most, ++held);
    if (lets_go(event)) --held;
  }
  return most;
}

Status check_all_but_waiting(const PipelineSchedule& schedule) {
  if (Status status = validate(schedule.shape); !status) return status;
  if (Status status = check_positions(schedule); !status) return status;
  return check_events(schedule);
}

}  // namespace

Status validate(const PipelineSchedule& schedule) {
  if (Status status = check_all_but_waiting(schedule); !status) return status;
  return Replay(schedule, {}, kNoLimit).run();
}

Status runs_with_room(const PipelineSchedule& schedule, std::uint32_t values) {
  if (values == 0) return bad_input("a pipeline needs room for at least 1 value between two stages");
  if (Status status = validate(schedule); !status) return status;
  return Replay(schedule, {}, values).run();
}

std::vector<PositionTicks> unit_ticks(const ScheduleShape& shape) {
  return std::vector<PositionTicks>(shape.positions(),
                                    {.forward = 1, .backward = 2, .input_gradient = 1, .weight_gradient = 1});
}

double PipelineTimeline::bubble_fraction() const {
  if (makespan == 0) return 0;
  TickSum all = 0;
  for (const Ticks ticks : busy) all += ticks;
  const TickSum time = TickSum{makespan} * static_cast<TickSum>(busy.size());
  return static_cast<double>(time - all) / static_cast<double>(time);
}

Result<PipelineTimeline> timeline(const PipelineSchedule& schedule, std::span<const PositionTicks> ticks) {
  if (Status status = check_all_but_waiting(schedule); !status) return status.error();
  if (Status status = check_ticks(schedule, ticks); !status) return status.error();
  Replay replay(schedule, ticks, kNoLimit);
  if (Status status = replay.run(); !status) return status.error();
  PipelineTimeline found;
  found.spans = std::move(replay.spans);
  for (std::size_t stage = 0; stage < found.spans.size(); ++stage) {
    Ticks busy = 0;
    for (const PipelineTimeline::Span& span : found.spans[stage]) busy += span.end - span.start;
    found.busy.push_back(busy);
    found.in_flight.push_back(most_in_flight(schedule.order[stage]));
    found.makespan = std::max(found.makespan, found.spans[stage].back().end);
  }
  return found;
}

}  // namespace meshwright
