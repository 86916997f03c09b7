#include "meshwright/dtype.h"

#include <array>

namespace meshwright {

namespace {

struct Traits {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
  bool floating;
};

constexpr std::array<Traits, 12> kTraits = {{
    {DType::uint8, "uint8", 1, false},       {DType::int8, "int8", 1, false},
    {DType::int16, "int16", 2, false},       {DType::int32, "int32", 4, false},
    {DType::int64, "int64", 8, false},       {DType::float16, "float16", 2, true},
    {DType::float32, "float32", 4, true},    {DType::float64, "float64", 8, true},
    {DType::bfloat16, "bfloat16", 2, true},  {DType::boolean, "bool", 1, false},
    {DType::complex64, "complex64", 8, true}, {DType::complex128, "complex128", 16, true},
}};

const Traits& traits(DType dtype) { return kTraits[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t size_bytes(DType dtype) { return traits(dtype).bytes; }

std::string_view name(DType dtype) { return traits(dtype).name; }

bool is_floating(DType dtype) { return traits(dtype).floating; }

bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Traits& candidate : kTraits) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace meshwright
