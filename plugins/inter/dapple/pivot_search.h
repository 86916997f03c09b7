// The stages of the least latency by DAPPLE's formula: a table by the first node and the first device of what is left, and, where memory counts, by how many stages there are, of labels (pivot_labels.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "pivot_labels.h"
#include "step_stages.h"

namespace meshwright {

struct FoundPivot {
  double seconds = 0;
  std::vector<PlacementStage> stages;
};

class PivotSearch {
 public:
  // `flights` null: memory is not looked at. Both outlive it.
  PivotSearch(const StepStages& stages, const FlightClasses* flights);

  // Of all lists of stages that take less than `below` and of which none takes longer than `pace` for a forward and a backward; nothing where none was found. At most `most_labels` of each sort are kept of a
  // state, and no more than `most_work` labels are made.
  std::optional<FoundPivot> search(double pace, double below, std::size_t most_labels, double most_work);

  // Of the last search: nothing was left out; and it was too much work.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  struct State {
    PivotLabels open{false}, pivoted{true};
  };
  struct WayHere {
    std::uint32_t way = 0;
    PivotPart part;
    double saved = 0, bytes = 0, passing = 0;
  };

  [[nodiscard]] State& state(std::size_t of, std::uint32_t node, std::uint32_t first) { return states_[(of * (stages_.nodes() + 1) + node) * width_ + first]; }
  [[nodiscard]] std::size_t classes() const { return flights_ == nullptr ? 1 : flights_->count(); }
  void fill(std::uint32_t node, const StageSize& size);
  void extend(std::vector<WayHere>& ways, std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] std::vector<const WayHere*> useful(const std::vector<WayHere>& ways, std::size_t of) const;
  void put_in_front(std::uint32_t node, std::uint32_t to, const StageSize& size, std::size_t of, std::size_t next, const WayHere& way);
  void end_with(std::uint32_t node, const StageSize& size, const WayHere& way);
  // Adds what may be better than all that is known.
  void add(State& state, std::uint32_t node, const std::optional<PivotLabel>& label, bool has_pivot, const PivotLabel& link);
  [[nodiscard]] double bound(std::uint32_t node, const PivotLabel& label, bool has_pivot) const;
  void cut(State& state, std::uint32_t node);
  // What crosses in front of the node, in front of all its stages.
  void cross(std::uint32_t node);
  [[nodiscard]] std::optional<FoundPivot> best();

  const StepStages& stages_;
  const FlightClasses* flights_;
  const std::size_t width_;
  const double microbatches_;
  double pace_ = 0, below_ = 0, work_ = 0;
  std::size_t most_labels_ = 0;
  bool complete_ = true, stopped_ = false;
  std::vector<StepStages::Band> bands_;  // by node
  std::vector<State> states_;
};

}  // namespace meshwright
