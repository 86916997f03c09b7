#include <algorithm>
#include <cmath>

#include "numbers.h"
#include "pooling.h"

namespace meshwright {

namespace {

// The window of one output position along one dimension: `step` apart, and as long as it counts for a mean.
struct Window {
  std::int64_t first = 0, last = 0, step = 1;  // [first, last)
  std::int64_t counted = 0;
};

std::int64_t at_or(const std::vector<std::int64_t>& list, std::size_t d, std::int64_t otherwise) {
  return list.empty() ? otherwise : list.size() == 1 ? list[0] : list[d];
}

// By output position.
std::vector<Window> windows(const Node& node, std::size_t d, std::int64_t input, std::int64_t output) {
  std::vector<Window> made;
  const std::int64_t kernel = at_or(node.integers("kernel_size"), d, 1);
  const std::int64_t stride = at_or(node.integers("stride"), d, kernel), padding = at_or(node.integers("padding"), d, 0);
  const std::int64_t dilation = at_or(node.integers("dilation"), d, 1);
  for (std::int64_t y = 0; y < output; ++y) {
    Window& window = made.emplace_back();
    if (is_adaptive(node)) {
      window.first = y * input / output;
      window.last = ((y + 1) * input + output - 1) / output;
      window.counted = window.last - window.first;
      continue;
    }
    const std::int64_t first = y * stride - padding, last = first + (kernel - 1) * dilation + 1;
    window.step = dilation;
    window.first = first < 0 ? first + (-first + dilation - 1) / dilation * dilation : first;
    window.last = std::min(last, input);
    // The padding counts, but not what a rounded-up size reaches beyond it.
    window.counted = node.boolean("count_include_pad", true) ? std::min(last, input + padding) - first
                                                             : std::max<std::int64_t>(window.last - window.first, 0);
  }
  return made;
}

// Calls visit(output element, its plane's first input element, offsets in the plane, counted).
class Pool {
 public:
  Pool(const Node& node, const TensorType& input, const TensorType& output) {
    const std::size_t space = pooled_dimensions(node), rank = input.shape.size();
    for (std::size_t d = 0; d < space; ++d) {
      sizes_.push_back(input.shape[rank - space + d]);
      lists_.push_back(windows(node, d, sizes_.back(), output.shape[rank - space + d]));
      input_plane_ *= sizes_.back();
      output_plane_ *= output.shape[rank - space + d];
    }
    planes_ = output.elements() / output_plane_;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t y = 0; y < output_plane_; ++y) {
      std::vector<std::int64_t> offsets = {0};
      std::int64_t rest = y, block = output_plane_, counted = 1;
      for (std::size_t d = 0; d < lists_.size(); ++d) {
        block /= static_cast<std::int64_t>(lists_[d].size());
        const Window& window = lists_[d][to_size(rest / block)];
        rest %= block;
        counted *= window.counted;
        std::vector<std::int64_t> longer;
        for (const std::int64_t offset : offsets) {
          for (std::int64_t x = window.first; x < window.last; x += window.step) longer.push_back(offset * sizes_[d] + x);
        }
        offsets = std::move(longer);
      }
      for (std::int64_t p = 0; p < planes_; ++p) visit(p * output_plane_ + y, p * input_plane_, offsets, counted);
    }
  }

 private:
  std::vector<std::vector<Window>> lists_;
  std::vector<std::int64_t> sizes_;
  std::int64_t input_plane_ = 1, output_plane_ = 1, planes_ = 1;
};

// The first of the largest; NaN counts as larger than any, as in PyTorch.
std::int64_t largest(const Tensor& input, std::int64_t plane, const std::vector<std::int64_t>& offsets) {
  std::int64_t found = offsets[0];
  for (const std::int64_t offset : offsets) {
    const double here = input.get(plane + offset);
    if (here > input.get(plane + found) || std::isnan(here)) found = offset;
  }
  return found;
}

}  // namespace

Result<std::vector<Tensor>> pooling_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool backward = is_backward(call.node);
  const TensorType &wide = backward ? call.results[0] : call.operands[0],
                   &narrow = backward ? call.operands[0] : call.results[0];
  const std::size_t pooled = pooled_dimensions(call.node), leading = wide.shape.size() - pooled;
  if (!std::equal(wide.shape.begin(), wide.shape.begin() + static_cast<std::ptrdiff_t>(leading), narrow.shape.begin())) {
    return bad_input("the shapes of operand and result do not go together");
  }
  const Pool pool(call.node, wide, narrow);
  const double divisor = call.node.number("divisor_override", 0);
  std::vector<Tensor> results;
  for (const TensorType& type : call.results) results.emplace_back(type);
  bool empty = false, outside = false;
  pool.for_each([&](std::int64_t y, std::int64_t plane, const std::vector<std::int64_t>& offsets, std::int64_t counted) {
    if (offsets.empty()) {
      empty = true;
    } else if (is_maximum(call.node)) {
      const auto indices = call.node.operand_index("indices");
      const std::int64_t found = indices ? static_cast<std::int64_t>(operands[*indices]->get(y)) : largest(*operands[backward ? 1 : 0], plane, offsets);
      if (found < 0 || plane + found >= wide.elements()) {
        outside = true;
        return;
      }
      if (backward) results[0].set(plane + found, results[0].get(plane + found) + operands[0]->get(y));
      else results[0].set(y, operands[0]->get(plane + found));
      if (!backward && results.size() == 2) results[1].set(y, static_cast<double>(found));
    } else {
      const double share = 1 / (divisor != 0 ? divisor : static_cast<double>(counted));
      double sum = 0;
      for (const std::int64_t offset : offsets) {
        if (backward) results[0].set(plane + offset, results[0].get(plane + offset) + operands[0]->get(y) * share);
        else sum += operands[0]->get(plane + offset);
      }
      if (!backward) results[0].set(y, sum * share);
    }
  });
  if (outside) return bad_input("an index is outside of its plane");
  if (empty) return bad_input("a window lies in the padding alone");
  return results;
}

}  // namespace meshwright
