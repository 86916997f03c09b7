// What is to be known of the last stages of a pipeline, so that DAPPLE's latency can be told once those before them are.
//
//   without a pivot yet   reach: (M - 1) (F + B) of the pivot that they have among themselves, with Σ (F + B) from the first of them up to it: the stage in front becomes the pivot if it is more
//                         ending: the largest R of a stage, without Σ B from the first of them up to it
//   with the pivot        seconds: Σ F up to the pivot, and (M - 1) (F + B) of it
//                         ending: the largest R of a stage with Σ B from it up to the pivot, or without that behind it
//                         backward: Σ B up to the pivot
//                         reach: as above; a stage in front for which (M - 1) (F + B) is more would be the pivot itself
//
// What crosses between stages is a stage here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace meshwright {

// A stage: seconds.
struct PivotPart {
  double forward = 0, backward = 0, once = 0;

  [[nodiscard]] double both() const { return forward + backward; }
};

struct PivotLabel {
  double seconds = 0, ending = 0, backward = 0, reach = 0;
  // The first of the stages, and which label of what is behind it this was made of.
  std::uint32_t to = 0, way = 0, next_class = 0, next_label = 0;
  bool next_has_pivot = false;
};

// The stage in front of those of a label without a pivot, or alone (null): as the pivot, nothing where the rule says that it is not; and as none.
std::optional<PivotLabel> as_pivot(const PivotLabel* behind, const PivotPart& part, double microbatches);
PivotLabel without_pivot(const PivotLabel* behind, const PivotPart& part, double microbatches);
// The stage in front of those of a label with the pivot; nothing where the rule would make it the pivot.
std::optional<PivotLabel> before_pivot(const PivotLabel& behind, const PivotPart& part, double microbatches);

// Labels of the same nodes and devices, all of one sort, of which none is better than another.
class PivotLabels {
 public:
  explicit PivotLabels(bool have_pivot) : have_pivot_(have_pivot) {}

  void add(const PivotLabel& label);
  // Leaves those of the least bound, `most` of them; false if there were more.
  bool cut(std::size_t most, const std::function<double(const PivotLabel&)>& bound);
  [[nodiscard]] const std::vector<PivotLabel>& all() const { return labels_; }

 private:
  bool have_pivot_;
  std::vector<PivotLabel> labels_;
};

}  // namespace meshwright
