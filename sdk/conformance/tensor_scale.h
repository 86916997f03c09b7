// The sizes that differences between two tensors are measured by.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "meshwright/tensor.h"

namespace meshwright {

// The largest size among `count` numbers, of which `number(i)` is one; NaN if one is none, 0 of none. Without their signs,
// floats are in the order of their bits read as integers, and NaN comes behind infinity: that the compiler vectorizes.
template <class Number>
float largest_size(std::size_t count, Number number) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<std::int32_t>(number(i)) & std::numeric_limits<std::int32_t>::max());
  return std::bit_cast<float>(largest);
}

// Of a whole tensor, or of each of its rows: the elements that share all indices but the last. A tensor whose rows have
// very unlike sizes (an embedding's gradient, say) may be wrong in its small rows and right in shares of its largest element.
class TensorScale {
 public:
  TensorScale() = default;
  // NaN where an element is none, so that every difference from such a tensor or row is NaN too.
  TensorScale(const Tensor& tensor, bool by_rows);

  // The largest element of the tensor, or of the row in which the element at `place` stands (row-major).
  [[nodiscard]] double at(std::int64_t place) const { return largest_[static_cast<std::size_t>(place / row_)]; }
  // Of the elements from `place` on that share the answer, how many there are.
  [[nodiscard]] std::int64_t alike_from(std::int64_t place) const { return row_ - place % row_; }
  // That of the whole tensor.
  [[nodiscard]] double largest() const;

 private:
  std::int64_t row_ = 1;         // elements in a row
  std::vector<double> largest_;  // by row
};

}  // namespace meshwright
