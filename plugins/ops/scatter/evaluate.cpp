#include <algorithm>
#include <cmath>

#include "broadcast.h"
#include "numbers.h"
#include "scatter.h"

namespace meshwright {

namespace {

double combine(ScatterReduction reduction, double held, double added) {
  switch (reduction) {
    case ScatterReduction::overwrite:
      return added;
    case ScatterReduction::sum:
    case ScatterReduction::mean:
      return held + added;
    case ScatterReduction::product:
      return held * added;
    case ScatterReduction::maximum:
      return std::max(held, added);
    case ScatterReduction::minimum:
      return std::min(held, added);
  }
  return added;
}

bool broadcasts(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  return from.size() <= to.size() &&
         std::equal(from.rbegin(), from.rend(), to.rbegin(), [](std::int64_t a, std::int64_t b) { return a == 1 || a == b; });
}

Result<std::vector<Tensor>> masked(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool backward = call.node.op == kMaskedBackward;
  const Tensor &self = *operands[0], &mask = *operands[1];
  if (!broadcasts(mask.shape(), self.shape())) return bad_input("the mask " + to_string(mask.type()) + " does not broadcast to " + to_string(self.type()));
  const BroadcastIndex index(mask.shape(), self.shape());
  std::vector<Tensor> results;
  Tensor& result = backward ? results.emplace_back(call.zeros(0)) : results.emplace_back(self);
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < self.elements(); ++i) {
    if (mask.get(index(i)) == 0) continue;
    if (next >= (backward ? result : *operands[2]).elements()) return bad_input("the mask picks more elements than source has");
    if (backward) result.set(next, self.get(i));
    else result.set(i, operands[2]->get(next));
    ++next;
  }
  return results;
}

}  // namespace

Result<std::vector<Tensor>> scatter_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (is_masked(call.node)) return masked(call, operands);
  const Result<ScatterReduction> reduction = scatter_reduction(call.node);
  if (!reduction) return reduction.error();
  const Tensor &self = *operands[0], &index = *operands[1];
  const Tensor* src = operands.size() > 2 ? operands[2] : nullptr;
  const std::size_t at = scatter_dimension(call.node, self.type().rank());
  const std::vector<std::int64_t> strides = strides_of(self.shape()), steps = strides_of(index.shape()),
                                  src_strides = src ? strides_of(src->shape()) : steps;
  Numbers held = numbers_of(self), counts(held.size(), includes_self(call.node) ? 1.0 : 0.0);
  for (std::int64_t i = 0; i < index.elements(); ++i) {
    std::int64_t rest = i, target = 0, source = 0;
    for (std::size_t d = 0; d < steps.size(); ++d) {
      const std::int64_t position = rest / steps[d];
      rest %= steps[d];
      const std::int64_t place = d == at ? static_cast<std::int64_t>(index.get(i)) : position;
      if (place < 0 || place >= self.shape()[d] || (src && position >= src->shape()[d])) {
        return bad_input("position " + std::to_string(place) + " is outside of dimension " + std::to_string(d));
      }
      target += place * strides[d];
      source += position * src_strides[d];
    }
    const double added = src ? src->get(source) : call.node.number("value", 0);
    double& here = held[to_size(target)];
    const bool first = counts[to_size(target)] == 0;  // of what self does not take part in
    here = first ? added : combine(*reduction, here, added);
    ++counts[to_size(target)];
  }
  for (std::size_t i = 0; *reduction == ScatterReduction::mean && i < held.size(); ++i) held[i] /= std::max(counts[i], 1.0);
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), held));
  return results;
}

}  // namespace meshwright
