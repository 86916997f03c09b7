#include "pivot_labels.h"

#include <algorithm>

#include "meshwright/placement.h"

namespace meshwright {

namespace {

bool is_more(double seconds, double reach) { return seconds > reach * (1 + kPivotTie); }

}  // namespace

std::optional<PivotLabel> as_pivot(const PivotLabel* behind, const PivotPart& part, double microbatches) {
  const double steady = (microbatches - 1) * part.both();
  if (behind != nullptr && !is_more(steady, behind->reach)) return std::nullopt;
  PivotLabel label;
  label.seconds = part.forward + steady;
  label.ending = std::max(part.once + part.backward, behind == nullptr ? 0 : behind->ending - part.backward);
  label.backward = part.backward;
  label.reach = steady;
  return label;
}

PivotLabel without_pivot(const PivotLabel* behind, const PivotPart& part, double microbatches) {
  const double steady = (microbatches - 1) * part.both();
  PivotLabel label;
  label.ending = (behind == nullptr ? part.once : std::max(part.once, behind->ending)) - part.backward;
  label.reach = behind == nullptr || is_more(steady, behind->reach) ? steady : behind->reach + part.both();
  return label;
}

std::optional<PivotLabel> before_pivot(const PivotLabel& behind, const PivotPart& part, double microbatches) {
  if (is_more((microbatches - 1) * part.both(), behind.reach)) return std::nullopt;
  PivotLabel label = behind;
  label.seconds += part.forward;
  label.backward += part.backward;
  label.ending = std::max(label.ending, part.once + label.backward);
  label.reach += part.both();
  return label;
}

// With the pivot a greater reach is better, without one a smaller reach.
void PivotLabels::add(const PivotLabel& label) {
  const auto is_better = [&](const PivotLabel& a, const PivotLabel& b) {
    return a.seconds <= b.seconds && a.ending <= b.ending && a.backward <= b.backward && (have_pivot_ ? a.reach >= b.reach : a.reach <= b.reach);
  };
  if (std::ranges::any_of(labels_, [&](const PivotLabel& known) { return is_better(known, label); })) return;
  std::erase_if(labels_, [&](const PivotLabel& known) { return is_better(label, known); });
  labels_.push_back(label);
}

bool PivotLabels::cut(std::size_t most, const std::function<double(const PivotLabel&)>& bound) {
  if (labels_.size() <= most) return true;
  std::ranges::stable_sort(labels_, {}, bound);
  labels_.resize(most);
  return false;
}

}  // namespace meshwright
