// Cuts of a line of units into the stages of a pipeline, by what units take in the ways that are known to split them (split_ways.h): each stage takes the way that is fastest within its memory, or a mixture of
// two where neither fits as well. All of it is an estimate, to say which plans are worth making; those say what is so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "meshwright/schedule.h"
#include "model_units.h"
#include "unit_costs.h"

namespace meshwright {

struct StageCost {
  std::size_t mesh = 0;  // index of what was added
  double forward_seconds = 0, input_gradient_seconds = 0, weight_gradient_seconds = 0, update_seconds = 0;
  double bytes = 0;
  double price = 0;      // seconds of a step for which one byte less would be given: 0 where memory does not bind
  std::size_t faster = 0, smaller = 0;  // the ways, in the order in which they were added
  double part = 1;       // of the stage goes the faster one
  double part_bytes = 0;  // by which all of it gone the faster way holds more than none of it

  [[nodiscard]] double backward_seconds() const { return input_gradient_seconds + weight_gradient_seconds; }
  // Of a step of so many microbatches, without waiting.
  [[nodiscard]] double step_seconds(double microbatches) const { return microbatches * (forward_seconds + backward_seconds()) + update_seconds; }
};

// A cut into the positions of a schedule, and how many devices each has.
struct LineShape {
  std::vector<std::size_t> ends;      // by position: the unit behind its last one
  std::vector<std::int64_t> devices;  // by position
};

struct LineCut {
  LineShape shape;
  std::vector<StageCost> stages;  // by position
  double step_seconds = 0;        // estimated
};

// What a schedule asks of a position.
struct PositionLoad {
  double in_flight = 0;  // of how many microbatches it holds something at most
  bool in_parts = false;  // some of its backwards are in two parts, and so all of them are
};

// Devices that may be those of a stage.
struct DeviceRange {
  std::int64_t first = 0, count = 0;
};

class StageLine {
 public:
  // `units` of the whole model, which outlive it; how many microbatches a step has.
  StageLine(const ModelUnits& units, std::int64_t microbatches) : units_(units), microbatches_(static_cast<double>(microbatches)) {}

  // A way to split units over so many devices, by the mesh of that index. They are numbered as they come.
  void add_way(std::size_t mesh, std::int64_t devices, const std::vector<UnitCost>& by_kind);

  // What units [from, to) take in one stage of so many devices within so many bytes of each; nothing where no way fits.
  [[nodiscard]] std::optional<StageCost> stage(std::size_t from, std::size_t to, std::int64_t devices, const PositionLoad& load, double bytes) const;

  // What a device would hold of the whole line over so many, in the way that holds least.
  [[nodiscard]] double least_bytes(std::int64_t devices, double in_flight) const;

  // What a step of the whole line takes in that of a mesh's ways that takes least, with so many seconds for each byte; infinite where it has none.
  [[nodiscard]] double priced_seconds(std::size_t mesh, double price, double in_flight) const;

  // The cut whose longest stage is shortest, with as many units as fit into each; `devices` by position. `bytes` of a device's memory is divided evenly among the positions that share it; `hop_seconds`: from one
  // stage to the next. Nothing where none fits.
  [[nodiscard]] std::optional<LineCut> cut(const PipelineSchedule& schedule, const std::vector<std::int64_t>& devices, double bytes, double hop_seconds) const;
  // Whatever devices its stages have: each has one of these ranges, where the one before ends, and the last one ends with `devices`. Of a schedule whose groups have one position each, in their order. Nothing where
  // no cut fits whose longest stage takes at most `longest` seconds of a step.
  [[nodiscard]] std::optional<LineShape> cut_freely(const PipelineSchedule& schedule, std::span<const DeviceRange> ranges, std::int64_t devices, double bytes, double longest) const;
  // What a cut takes; nothing where it does not fit.
  [[nodiscard]] std::optional<LineCut> estimate(const PipelineSchedule& schedule, LineShape shape, double bytes, double hop_seconds) const;
  // Moved unit by unit as long as the schedule's step becomes shorter.
  [[nodiscard]] LineCut moved(LineCut cut, const PipelineSchedule& schedule, double bytes, double hop_seconds) const;

  // Multiplies the seconds of units [from, to): what plans say of them.
  void correct(std::size_t from, std::size_t to, double factor);

  [[nodiscard]] std::size_t size() const { return units_.units.size(); }

 private:
  struct Way {
    std::size_t mesh = 0;
    std::vector<UnitCost> by_kind;
    std::vector<UnitCost> before = {};  // sums of the units before each; of passing bytes 0
  };
  class Free;

  void sum_up(Way& way) const;
  [[nodiscard]] UnitCost sum(const Way& way, std::size_t from, std::size_t to) const;
  // Of a step, of the whole line over so many devices in the slowest way.
  [[nodiscard]] double slowest_seconds(std::int64_t devices) const;
  // Nothing where it does not take less.
  [[nodiscard]] std::optional<LineCut> estimate_below(double most_seconds, const PipelineSchedule& schedule, const std::vector<PositionLoad>& loads, LineShape shape, double bytes, double hop_seconds) const;
  [[nodiscard]] std::optional<std::vector<std::size_t>> fill(std::span<const std::int64_t> devices, std::span<const PositionLoad> loads, double bytes, double longest) const;

  const ModelUnits& units_;
  const double microbatches_;
  std::vector<Way> ways_;
  std::map<std::int64_t, std::vector<std::size_t>> ways_of_;  // by devices: indices of ways
  std::vector<double> factors_;  // by unit; empty: all 1
};

// Of one stage: each microbatch's forward and backward before the next one's.
PipelineSchedule one_stage(std::int64_t microbatches);

// Whether each group of a schedule has one position, in their order.
bool is_plain(const PipelineSchedule& schedule);

// By position of a schedule what its group has.
std::vector<std::int64_t> by_position(const PipelineSchedule& schedule, const std::vector<std::int64_t>& by_group);

// By position of a schedule.
std::vector<PositionLoad> loads_by_position(const PipelineSchedule& schedule);

}  // namespace meshwright
