// In which order a training step happens. Whoever has a sense of time in a step reads it: the memory terms of the search,
// lowering, the memory profile, the simulation, and whoever executes a program.
//
// What a forward runs is the graph, in its order; a backward runs the same nodes from the last to the first; the update ends
// the step. A backward may be cut in two: first what other stages of a pipeline wait for, the gradients of what this one received, then
// all else, which are the gradients of its weights (Qi et al. 2023, "Zero bubble pipeline parallelism"). A step with many microbatches
// repeats itself: what repeats is kept once, with the number of its repetitions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/training.h"

namespace meshwright {

enum class Phase : std::uint8_t {
  forward,
  backward,         // the whole of it
  input_gradient,   // its first part
  weight_gradient,  // its second part
  update,
};

inline constexpr std::size_t kPhases = 5;

MESHWRIGHT_API const char* name(Phase phase);

// A backward or a part of one.
constexpr bool is_backward(Phase phase) { return phase != Phase::forward && phase != Phase::update; }
// A microbatch holds nothing any more behind this.
constexpr bool ends_microbatch(Phase phase) { return phase == Phase::backward || phase == Phase::weight_gradient; }

// The forward, the backward or a part of the backward of one microbatch. The update counts as one of the last microbatch.
struct StepEvent {
  Phase phase = Phase::forward;
  std::int64_t microbatch = 0;
  bool operator==(const StepEvent&) const = default;
};

// "F0", "B0", "I0", "W0": a forward, a backward or a part of one. Not of updates.
MESHWRIGHT_API std::string to_string(const StepEvent& event);

// In the r-th repetition, counted from 0, each event is one of the microbatch r behind the one that is written here.
struct StepSegment {
  std::vector<StepEvent> events;
  std::int64_t repeats = 1;

  // As many microbatches are in flight after each repetition as before it, one forward and one backward, or its parts, being each: all between the
  // first and the last do what these do, to other microbatches.
  [[nodiscard]] MESHWRIGHT_API bool is_steady() const;
  bool operator==(const StepSegment&) const = default;
};

// Microbatches begin in their order, and their backwards come in their order, each part for itself; all backwards are whole, or all are in two parts. What repeats holds neither the first nor the
// last microbatch, in which a step does other things than in those between. By default one microbatch.
struct StepOrder {
  std::int64_t microbatches = 1;
  std::vector<StepSegment> segments = {{{{Phase::forward, 0}, {Phase::backward, 0}, {Phase::update, 0}}, 1}};

  // All events, one after the other.
  [[nodiscard]] MESHWRIGHT_API std::vector<StepEvent> events() const;
  // Whether its backwards are in two parts.
  [[nodiscard]] MESHWRIGHT_API bool has_parts() const;
  // Of all forwards, or of all backwards and their parts, the one during which most is held, as far as the order tells.
  struct Fullest {
    std::int64_t in_flight = 0;  // microbatches whose forward has begun and whose backward has not ended, its own among them
    bool adds_up = false;        // an earlier microbatch's backward has ended, so that there are sums of gradients
    bool goes_on = false;        // it is not of the last microbatch, so that sums stay as they are
    auto operator<=>(const Fullest&) const = default;
  };
  // First by what is in flight, then by the rest.
  [[nodiscard]] MESHWRIGHT_API Fullest fullest(Phase phase) const;
  bool operator==(const StepOrder&) const = default;
};

// The order of these settings: as they write it (TrainingSettings::order), or each microbatch's forward and backward before
// the next one's. Errors: bad_input for what is no order, as `parse_step_order`.
MESHWRIGHT_API Result<StepOrder> step_order(const TrainingSettings& training);

// "F0 F1 B0 F2 B1 B2": forwards and backwards by the numbers of their microbatches; the update is not written. "F0 I0 F1 W0 I1 W1" has
// backwards in two parts, and a B beside them is an I and a W. Errors: bad_input for another word, a microbatch that is missing, there twice or out of turn, a backward
// before its forward, and a second part before the first.
MESHWRIGHT_API Result<StepOrder> parse_step_order(const std::string& text, std::int64_t microbatches);

// "F0 B0 (F1 B1) x6 F7 B7", where (F1 B1) x6 stands for F1 B1 F2 B2 and so on.
MESHWRIGHT_API std::string to_string(const StepOrder& order);

// An order of fewer microbatches, numbered anew: of what repeats steadily there are the first and the last repetition.
struct ShortenedOrder {
  struct Gap {
    std::size_t event = 0;         // before which repetitions were left out, in `events`
    std::size_t period = 0;        // events of one repetition; those before the gap are the first one
    std::int64_t repetitions = 0;  // that were left out
  };
  std::int64_t microbatches = 1;
  std::vector<StepEvent> events;
  std::vector<Gap> gaps;

  // The number that the microbatch of the event at this place has in the whole step.
  [[nodiscard]] MESHWRIGHT_API std::int64_t microbatch_at(std::size_t event) const;
};

MESHWRIGHT_API ShortenedOrder shortened(const StepOrder& order);

// An event of one of the stages that share a group of devices.
struct StageEvent {
  std::uint32_t stage = 0;
  StepEvent event;
  bool operator==(const StageEvent&) const = default;
};

// "3F0": the stage before the event, as in PyTorch's schedule files.
MESHWRIGHT_API std::string to_string(const StageEvent& event);
// The other way, of many with spaces between them. Errors: bad_input for another word, or a number that is too large.
MESHWRIGHT_API Result<std::vector<StageEvent>> parse_stage_events(std::string_view text);

// Where several stages share devices (Megatron's virtual stages: interleaved, looped and V-shaped schedules): by group of devices, the forwards and
// backwards, or their parts, of its stages, one after the other, those of each stage in the order of its program. The updates of all of them follow. Empty: each stage has
// devices of its own, and runs as its program says.
using GroupOrders = std::vector<std::vector<StageEvent>>;

}  // namespace meshwright
