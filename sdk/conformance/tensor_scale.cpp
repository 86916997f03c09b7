#include "tensor_scale.h"

namespace meshwright {

namespace {

// NaN where either is none.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

}  // namespace

TensorScale::TensorScale(const Tensor& tensor, bool by_rows) {
  const std::int64_t elements = tensor.elements();
  row_ = std::max<std::int64_t>(by_rows && !tensor.shape().empty() ? tensor.shape().back() : elements, 1);
  for (std::int64_t first = 0; first < elements; first += row_) {
    if (tensor.type().dtype == DType::float32) {
      const float* row = tensor.as<float>().data() + first;
      largest_.push_back(largest_size(static_cast<std::size_t>(row_), [row](std::size_t i) { return row[i]; }));
      continue;
    }
    double largest = 0;
    for (std::int64_t i = first; i < first + row_ && !std::isnan(largest); ++i) {
      const double size = std::abs(tensor.get(i));
      if (!(size <= largest)) largest = size;
    }
    largest_.push_back(largest);
  }
}

double TensorScale::largest() const {
  double largest = 0;
  for (const double one : largest_) largest = larger(largest, one);
  return largest;
}

}  // namespace meshwright
