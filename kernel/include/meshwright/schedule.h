// Pipeline schedules: in which order each stage runs the forwards and backwards of a step's microbatches. Makers of
// schedules are plugins of kind "schedules"; what a schedule takes and holds is found here, for all of them.
//
// A pipeline has `stages`, groups of devices that compute beside each other. The model is cut into stages * chunks
// pieces, and each stage holds `chunks` of them (Megatron's virtual stages). A piece's place along the model is its
// position: the forward of position q reads what q - 1 made of the same microbatch, and the backward of q the gradient
// that q + 1 made. The last position holds the loss. PyTorch's pipelining calls a position "stage index", and a stage
// "rank".
//
// A stage runs its events one after the other, in the order that the schedule says and as soon as what they read is
// there. A backward is one event, or two: the gradient of the chunk's input, which the position before waits for, and
// that of its weights, which nobody waits for (Qi et al. 2023, "Zero bubble pipeline parallelism").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct ScheduleShape {
  std::uint32_t stages = 0;
  std::uint32_t chunks = 0;        // of each stage
  std::uint32_t microbatches = 0;  // of a step

  [[nodiscard]] std::uint32_t positions() const { return stages * chunks; }

  friend bool operator==(const ScheduleShape&, const ScheduleShape&) = default;
};

// Sizes beyond which a number is a mistake: every event is unrolled.
inline constexpr std::uint32_t kMostScheduleStages = 4096;
inline constexpr std::uint32_t kMostScheduleChunks = 1024;
inline constexpr std::uint32_t kMostScheduleMicrobatches = 4096;
inline constexpr std::uint64_t kMostScheduleForwards = std::uint64_t{1} << 20;  // stages * chunks * microbatches

// Every size is at least 1, and none is beyond the sizes above. Error: bad_input, with the size.
MESHWRIGHT_API Status validate(const ScheduleShape& shape);

enum class PipelineEventKind : std::uint8_t {
  forward,
  backward,         // the whole of it
  input_gradient,   // its first part
  weight_gradient,  // its second part
};

// 'F', 'B', 'I', 'W', as in PyTorch's schedules.
MESHWRIGHT_API char letter(PipelineEventKind kind);
// "forward", "backward", "input gradient", "weight gradient".
MESHWRIGHT_API std::string_view name(PipelineEventKind kind);

struct PipelineEvent {
  PipelineEventKind kind = PipelineEventKind::forward;
  std::uint32_t chunk = 0;  // of the stage that runs it
  std::uint32_t microbatch = 0;

  friend bool operator==(const PipelineEvent&, const PipelineEvent&) = default;
};

struct PipelineSchedule {
  ScheduleShape shape;
  std::vector<std::uint32_t> positions;           // of chunk c of stage s at [s * chunks + c]; each position once
  std::vector<std::vector<PipelineEvent>> order;  // by stage

  [[nodiscard]] std::uint32_t position(std::size_t stage, std::uint32_t chunk) const {
    return positions[stage * shape.chunks + chunk];
  }

  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// "3F0": position, kind, microbatch, as a cell of PyTorch's schedule files. The schedule has the chunk.
MESHWRIGHT_API std::string to_string(const PipelineSchedule& schedule, std::size_t stage, const PipelineEvent& event);

// What every maker promises: a valid shape; each position on one stage; of each position and microbatch one forward,
// and one whole backward or its two parts, in this order; and no stage that waits for ever. Error: bad_input, with the
// stage and the event, and for a deadlock the events that wait for each other.
MESHWRIGHT_API Status validate(const PipelineSchedule& schedule);

// Whether a valid schedule still ends where room is bounded: of each boundary between two stages, for each of the two
// directions, the receiver holds `values` sent values that it has not begun to read, and an event does not begin
// without room for what it sends. Values between two chunks of one stage need no room. Errors: bad_input, with the
// events that wait for each other; those of validate; `values` must be at least 1.
MESHWRIGHT_API Status runs_with_room(const PipelineSchedule& schedule, std::uint32_t values);

// Of one position and one microbatch. Nothing is negative.
struct PositionTicks {
  Ticks forward = 0;
  Ticks backward = 0;  // the whole, which need not be the sum of the two parts
  Ticks input_gradient = 0;
  Ticks weight_gradient = 0;
};

// One tick for a forward and for each part of a backward, two for a whole one: the units in which papers draw
// schedules.
MESHWRIGHT_API std::vector<PositionTicks> unit_ticks(const ScheduleShape& shape);

struct PipelineTimeline {
  struct Span {
    Ticks start = 0;
    Ticks end = 0;
  };
  std::vector<std::vector<Span>> spans;  // by stage, of each event in its order
  Ticks makespan = 0;                    // when the last event ends; the first one begins at 0
  // By stage: pairs of a chunk and a microbatch for which something is held, at most. They are held from the beginning
  // of their forward to the end of their backward or weight gradient.
  std::vector<std::uint32_t> in_flight;
  std::vector<Ticks> busy;  // by stage

  // The share of all stages' time in which they wait; 0 if nothing takes time.
  MESHWRIGHT_API double bubble_fraction() const;
};

// When every event runs; communication takes no time. `ticks` has an entry for each position. The time that this takes
// is linear in the number of events. Errors: those of validate; bad_input if `ticks` has another size, is negative
// somewhere, or adds up to 2^61 or more over all events.
MESHWRIGHT_API Result<PipelineTimeline> timeline(const PipelineSchedule& schedule,
                                                 std::span<const PositionTicks> ticks);

class MESHWRIGHT_API ScheduleMaker {
 public:
  virtual ~ScheduleMaker();

  // The schedule for `wanted`. A size that is 0 is left to the maker: its usual number of chunks; stages and
  // microbatches only if it has a shape of its own (from a file). Sizes are bounded before it is asked, and its answer
  // is validated and has the sizes that were wanted. Implementations keep nothing and are deterministic. Errors:
  // bad_input for a shape that the maker has no schedule for, with one that it has; plugin_failed for an answer that is
  // invalid.
  Result<PipelineSchedule> make(const ScheduleShape& wanted) const;

 private:
  virtual Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const = 0;
};

}  // namespace meshwright
