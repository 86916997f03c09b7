// Stages of a line of nodes, as solvers of StepProblems go through them: what nodes [from, to) take in each way, and bounds
// on what they take in any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/placement.h"

namespace meshwright {

// Nodes [from, to) in one way.
struct StageSums {
  double forward = 0, backward = 0, once = 0;  // seconds
  double resident = 0, saved = 0, passing = 0;  // bytes

  [[nodiscard]] double both() const { return forward + backward; }
  [[nodiscard]] double bytes(double in_flight) const { return resident + in_flight * saved + passing; }
};

// Ways on as many devices, and where a stage of them may begin.
struct StageSize {
  std::uint32_t devices = 1;
  std::vector<std::uint32_t> ways;
  std::vector<std::uint32_t> firsts;  // ascending
};

class StepStages {
 public:
  explicit StepStages(const StepProblem& problem);  // which outlives it

  [[nodiscard]] const StepProblem& problem() const { return problem_; }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(problem_.nodes.size()); }
  [[nodiscard]] const std::vector<StageSize>& sizes() const { return sizes_; }  // by devices, ascending; those that fit nowhere are left out

  // But for passing bytes, which are 0.
  [[nodiscard]] StageSums sums(std::uint32_t way, std::uint32_t from, std::uint32_t to) const;
  // What a device can hold, with the round-off that `evaluate` allows.
  [[nodiscard]] double device_bytes() const;

  // Least seconds in any way, of all nodes before one: of a forward, a backward, and of both with the part of a microbatch in what comes once a step.
  [[nodiscard]] double least_forward(std::uint32_t before) const { return least_forward_[before]; }
  [[nodiscard]] double least_backward(std::uint32_t before) const { return least_backward_[before]; }
  [[nodiscard]] double least_seconds(std::uint32_t before) const { return least_seconds_[before]; }
  // Least device-seconds of a microbatch's forward and backward: a stage is no shorter than those of its nodes over its devices.
  [[nodiscard]] double least_work(std::uint32_t before) const { return least_work_[before]; }
  // Forward and backward of the longest stage, whatever the stages, are no shorter; and no stage takes longer, with its part of what comes once a step.
  [[nodiscard]] double least_pace() const;
  [[nodiscard]] double most_pace() const;

  // For which first devices of the stage that begins with a node all nodes can be within a pace, as far as work says: [begin, end), none if end <= begin.
  struct Band {
    std::uint32_t begin = 0, end = 0;
  };
  [[nodiscard]] Band band(std::uint32_t node, double pace) const;

 private:
  const StepProblem& problem_;
  std::vector<StageSize> sizes_;
  std::vector<std::vector<StageSums>> before_;  // by way: sums of the nodes before each
  std::vector<double> least_forward_, least_backward_, least_seconds_, least_work_;
};

// The stage of nodes [from, to) that an answer has.
PlacementStage placed_stage(const StepProblem& problem, std::uint32_t way, std::uint32_t from, std::uint32_t to);

// How many microbatches stages have in flight, as a search for stages that fit counts them: of each number of stages from one on, in classes of which the last has all the greater numbers.
class FlightClasses {
 public:
  // As many as there can be, but at most `most`.
  FlightClasses(const StepProblem& problem, std::size_t most);
  [[nodiscard]] std::size_t count() const { return in_flight_.size(); }
  [[nodiscard]] double in_flight(std::size_t of) const { return in_flight_[of]; }
  [[nodiscard]] bool exact() const { return exact_; }  // false: the last class counts more than some of its stages have

 private:
  std::vector<double> in_flight_;
  bool exact_ = true;
};

// That no stages fit, with the reason: a node that fits no device in any way, devices that ways can't have together, or all of it. `all_tried` false: there was too much to try, which is said where no other reason is known.
PlacementAnswer no_stages(const StepProblem& problem, bool all_tried);

}  // namespace meshwright
