// For a longest stage, the stages that have the least sum of seconds: a table by the first node and the first device of
// what is left, and, where memory counts, by how many stages there are (Alpa's eq. 3).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "step_stages.h"

namespace meshwright {

struct FoundSteps {
  double sum = 0, longest = 0;  // of t = forward + backward + once / microbatches
  std::vector<PlacementStage> stages;

  [[nodiscard]] double objective(double microbatches) const { return sum + (microbatches - 1) * longest; }
};

class StepTable {
 public:
  // `flights` null: memory is not looked at. Both outlive it.
  StepTable(const StepStages& stages, const FlightClasses* flights);

  // Of all lists of stages of which none takes longer than `pace`; nothing where there are none.
  std::optional<FoundSteps> within(double pace);

  [[nodiscard]] double work() const { return work_; }  // steps of the dynamic program so far

 private:
  // In so few bytes, since there are many.
  struct Choice {
    std::uint32_t way = 0;
    std::uint16_t to = 0, next = 0;  // next: the class of what is behind
  };
  static_assert(kMostPlacementNodes < 1U << 16);
  struct WayHere {
    std::uint32_t way = 0;
    double seconds = 0, saved = 0, bytes = 0, passing = 0;
  };

  [[nodiscard]] std::size_t state(std::size_t of, std::uint32_t node, std::uint32_t first) const { return (of * (stages_.nodes() + 1) + node) * width_ + first; }
  void fill(std::uint32_t node, const StageSize& size);
  void extend(std::vector<WayHere>& ways, std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] const WayHere* fastest(const std::vector<WayHere>& ways, std::size_t of) const;
  void relax(std::uint32_t node, std::uint32_t to, const StageSize& size, std::size_t of, std::size_t next, const WayHere& way);
  [[nodiscard]] FoundSteps read(std::size_t of) const;
  [[nodiscard]] std::size_t classes() const { return flights_ == nullptr ? 1 : flights_->count(); }

  const StepStages& stages_;
  const FlightClasses* flights_;
  const std::size_t width_;
  double pace_ = 0, work_ = 0;
  std::vector<StepStages::Band> bands_;  // by node
  std::vector<double> sums_;             // by state
  std::vector<Choice> choices_;          // by state
};

}  // namespace meshwright
