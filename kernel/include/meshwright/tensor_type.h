// What is known of a tensor without its elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/dtype.h"
#include "meshwright/export.h"

namespace meshwright {

struct TensorType {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  [[nodiscard]] MESHWRIGHT_API std::int64_t elements() const;
  [[nodiscard]] MESHWRIGHT_API std::int64_t bytes() const;
  bool operator==(const TensorType&) const = default;
};

// "float32[8, 1024, 768]"
MESHWRIGHT_API std::string to_string(const TensorType& type);

}  // namespace meshwright
