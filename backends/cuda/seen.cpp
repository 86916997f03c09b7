#include "seen.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "meshwright/tensor.h"

namespace meshwright::cuda {

bool Seen::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t d = strides.size(); d-- > 0;) {
    if (type.shape[d] != 1 && strides[d] != expected) return false;
    expected *= type.shape[d];
  }
  return true;
}

Range Seen::range() const {
  if (type.elements() == 0) return {data, 0};
  std::int64_t last = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) last += (type.shape[d] - 1) * strides[d];
  return {data, static_cast<std::size_t>(last + 1) * element_bytes()};
}

Seen seen_at(std::byte* data, TensorType type) {
  std::vector<std::int64_t> strides = strides_of(type.shape);
  return {std::move(type), data, std::move(strides)};
}

namespace {

// From how far apart the first elements along each dimension are. Nothing, unless all elements agree.
std::optional<std::vector<std::int64_t>> strides_through(std::span<const std::int64_t> places, const std::vector<std::int64_t>& shape) {
  const std::vector<std::int64_t> own = strides_of(shape);
  std::vector<std::int64_t> strides(shape.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) strides[d] = places[static_cast<std::size_t>(own[d])] - places[0];
    if (strides[d] < 0) return std::nullopt;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::int64_t expected = places[0];
    for (std::size_t d = 0; d < shape.size(); ++d) expected += static_cast<std::int64_t>(i) / own[d] % shape[d] * strides[d];
    if (places[i] != expected) return std::nullopt;
  }
  return strides;
}

}  // namespace

Result<std::optional<Seen>> view_of(const Seen& operand, const OpCall& call, std::size_t result, const OpTable& ops) {
  const OpFamily* family = ops.find(call.node.op);
  if (family == nullptr) return bad_input("no op family serves " + call.node.op);
  Tensor places(TensorType{DType::int64, operand.type.shape});
  const std::vector<std::int64_t> own = strides_of(operand.type.shape);
  const std::span<std::int64_t> numbers = places.as<std::int64_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::size_t d = 0; d < own.size(); ++d) numbers[i] += static_cast<std::int64_t>(i) / own[d] % operand.type.shape[d] * operand.strides[d];
  }
  OpCall on_places{call.node, call.operands, call.results};
  for (TensorType& type : on_places.operands) type.dtype = DType::int64;
  for (TensorType& type : on_places.results) type.dtype = DType::int64;
  const Result<std::vector<Tensor>> seen = family->evaluate(on_places, std::array<const Tensor*, 1>{&places});
  if (!seen) return seen.error();
  const std::span<const std::int64_t> found = (*seen)[result].as<std::int64_t>();
  Seen made{{operand.type.dtype, call.results[result].shape}, operand.data, {}};
  if (found.empty()) return std::optional<Seen>(seen_at(operand.data, made.type));
  std::optional<std::vector<std::int64_t>> strides = strides_through(found, made.type.shape);
  if (!strides) return std::optional<Seen>();
  made.data += static_cast<std::size_t>(found[0]) * operand.element_bytes();
  made.strides = std::move(*strides);
  return std::optional<Seen>(std::move(made));
}

Walk walk_over(std::span<const std::int64_t> sizes, const std::vector<std::vector<std::int64_t>>& strides) {
  Walk walk{{}, std::vector<std::vector<std::int64_t>>(strides.size())};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const auto goes_on = [&](std::size_t t) { return walk.strides[t].back() == strides[t][d] * sizes[d]; };
    std::vector<std::size_t> tensors(strides.size());
    std::iota(tensors.begin(), tensors.end(), std::size_t{0});
    const bool joins = !walk.sizes.empty() && std::ranges::all_of(tensors, goes_on);
    if (joins) walk.sizes.back() *= sizes[d];
    else walk.sizes.push_back(sizes[d]);
    for (const std::size_t t : tensors) {
      if (joins) walk.strides[t].back() = strides[t][d];
      else walk.strides[t].push_back(strides[t][d]);
    }
  }
  return walk;
}

std::vector<std::int64_t> broadcast_strides(const Seen& tensor, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t missing = shape.size() - tensor.strides.size();
  for (std::size_t d = 0; d < tensor.strides.size(); ++d) strides[missing + d] = tensor.type.shape[d] == 1 ? 0 : tensor.strides[d];
  return strides;
}

Result<Sizes> sizes_for(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank) return bad_input("kernels of cuda walk over at most " + std::to_string(kMaxRank) + " dimensions, and this has " + std::to_string(sizes.size()));
  Sizes made;
  made.rank = static_cast<std::int32_t>(sizes.size());
  std::ranges::copy(sizes, made.of);
  return made;
}

Result<Element> element_for(DType dtype) {
  if (dtype == DType::float16 || dtype == DType::bfloat16 || is_complex(dtype)) return bad_input("kernels of cuda do not compute " + std::string(name(dtype)) + " yet");
  return static_cast<Element>(dtype);
}

Result<View> view_for(const Seen& tensor, std::span<const std::int64_t> strides) {
  const Result<Element> element = element_for(tensor.type.dtype);
  if (!element) return element.error();
  View view;
  view.data = tensor.data;
  view.element = *element;
  std::ranges::copy(strides, view.strides);
  return view;
}

}  // namespace meshwright::cuda
