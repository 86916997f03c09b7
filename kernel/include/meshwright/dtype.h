// Element types of tensors, named as PyTorch names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "meshwright/export.h"

namespace meshwright {

enum class DType : std::uint8_t {
  uint8, int8, int16, int32, int64, float16, float32, float64, bfloat16, boolean, complex64, complex128,
};

MESHWRIGHT_API std::int64_t size_bytes(DType dtype);
MESHWRIGHT_API std::string_view name(DType dtype);  // "float32"
MESHWRIGHT_API std::optional<DType> parse_dtype(std::string_view name);
MESHWRIGHT_API bool is_floating(DType dtype);  // complex counts: it has gradients
MESHWRIGHT_API bool is_complex(DType dtype);

}  // namespace meshwright
