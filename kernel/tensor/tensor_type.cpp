#include "meshwright/tensor_type.h"

namespace meshwright {

std::int64_t TensorType::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t TensorType::bytes() const { return elements() * size_bytes(dtype); }

std::string to_string(const TensorType& type) {
  std::string text{name(type.dtype)};
  text += '[';
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(type.shape[i]);
  }
  return text + ']';
}

}  // namespace meshwright
