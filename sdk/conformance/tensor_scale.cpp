#include "tensor_scale.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

// NaN where either is none.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace

TensorScale::TensorScale(const Tensor& tensor, bool by_rows) {
  const std::int64_t elements = tensor.elements();
  row_ = std::max<std::int64_t>(by_rows && !tensor.shape().empty() ? tensor.shape().back() : elements, 1);
  largest_.assign(static_cast<std::size_t>(elements / row_), 0.0);
  for (std::int64_t i = 0; i < elements; ++i) {
    double& largest = largest_[static_cast<std::size_t>(i / row_)];
    largest = larger(largest, std::abs(tensor.get(i)));
  }
}

double TensorScale::largest() const {
  double largest = 0;
  for (const double one : largest_) largest = larger(largest, one);
  return largest;
}

}  // namespace meshwright
