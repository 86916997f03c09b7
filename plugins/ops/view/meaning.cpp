#include <algorithm>
#include <cstring>
#include <numeric>

#include "broadcast.h"
#include "view.h"

namespace meshwright {

bool is_permutation(std::string_view op) {
  return op == "aten.transpose.int" || op == "aten.t" || op == "aten.permute";
}

Result<std::vector<std::int64_t>> permutation_of(const Node& node, std::int64_t rank) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto position = [&](std::int64_t dimension) { return static_cast<std::size_t>(dimension < 0 ? dimension + rank : dimension); };
  if (node.op == "aten.permute") {
    const std::vector<std::int64_t> dims = node.integers("dims");
    if (dims.size() != order.size()) return bad_input("dims must name every dimension");
    for (std::size_t i = 0; i < dims.size(); ++i) order[i] = static_cast<std::int64_t>(position(dims[i]));
  } else if (rank >= 2) {
    std::swap(order[position(node.integer("dim0", 0))], order[position(node.integer("dim1", 1))]);
  }
  return order;
}

bool transposes(const Node& node, std::int64_t rank) {
  if (!is_permutation(node.op) || rank < 2) return false;
  const Result<std::vector<std::int64_t>> order = permutation_of(node, rank);
  if (!order) return false;
  std::vector<std::int64_t> exchanged(order->size());
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[exchanged.size() - 1], exchanged[exchanged.size() - 2]);
  return *order == exchanged;
}

namespace {

// Two dimensions of a tensor, and how many elements a step along each is where they are copied from.
struct Plane {
  std::int64_t rows = 1, columns = 1, row_step = 0, column_step = 1;
};

// As many columns at a time as fill a line of the cache, so that a transposed plane is read and written by whole lines.
template <std::size_t kBytes>
void copy_strided(const Plane& plane, const std::byte* from, std::byte* to) {
  constexpr std::int64_t kBlock = 64 / kBytes, kSize = kBytes;
  for (std::int64_t first = 0; first < plane.columns; first += kBlock) {
    const std::int64_t last = std::min(plane.columns, first + kBlock);
    for (std::int64_t row = 0; row < plane.rows; ++row) {
      const std::byte* source = from + row * plane.row_step * kSize;
      std::byte* target = to + row * plane.columns * kSize;
      for (std::int64_t i = first; i < last; ++i) std::memcpy(target + i * kSize, source + i * plane.column_step * kSize, kBytes);
    }
  }
}

void copy_plane(const Plane& plane, std::int64_t element, const std::byte* from, std::byte* to) {
  if (plane.column_step == 1) {
    for (std::int64_t row = 0; row < plane.rows; ++row) {
      std::memcpy(to + row * plane.columns * element, from + row * plane.row_step * element, static_cast<std::size_t>(plane.columns * element));
    }
    return;
  }
  switch (element) {
    case 1: return copy_strided<1>(plane, from, to);
    case 2: return copy_strided<2>(plane, from, to);
    case 4: return copy_strided<4>(plane, from, to);
    case 8: return copy_strided<8>(plane, from, to);
    default: return copy_strided<16>(plane, from, to);
  }
}

// Fills `result` from `operand`, in which a step along each dimension of the result is `strides` elements.
void gather_strided(const Tensor& operand, const std::vector<std::int64_t>& strides, Tensor& result) {
  if (result.elements() == 0) return;
  const std::int64_t element = size_bytes(result.type().dtype);
  const std::vector<std::int64_t>& shape = result.shape();
  const std::size_t rank = shape.size();
  Plane plane;
  if (rank > 0) plane.columns = shape[rank - 1], plane.column_step = strides[rank - 1];
  if (rank > 1) plane.rows = shape[rank - 2], plane.row_step = strides[rank - 2];
  const std::int64_t in_plane = plane.rows * plane.columns;
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t made = 0, source = 0; made < result.elements(); made += in_plane) {
    copy_plane(plane, element, operand.bytes().data() + source * element, result.bytes().data() + made * element);
    // The next plane: count up the dimensions before the last two.
    for (std::size_t d = rank < 3 ? 0 : rank - 2; d-- > 0;) {
      source += strides[d];
      if (++index[d] < shape[d]) break;
      source -= shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

Tensor permuted(const Tensor& operand, Tensor result, const std::vector<std::int64_t>& order) {
  const std::vector<std::int64_t> from = strides_of(operand.shape());
  std::vector<std::int64_t> strides;
  for (const std::int64_t dimension : order) strides.push_back(from[static_cast<std::size_t>(dimension)]);
  gather_strided(operand, strides, result);
  return result;
}

Tensor expanded(const Tensor& operand, Tensor result) {
  const TensorType& type = result.type();
  const std::vector<std::int64_t> from = strides_of(operand.shape());
  const std::size_t missing = type.shape.size() - operand.shape().size();
  std::vector<std::int64_t> strides(type.shape.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) strides[missing + i] = operand.shape()[i] == 1 ? 0 : from[i];
  gather_strided(operand, strides, result);
  return result;
}

}  // namespace

Result<std::vector<Tensor>> view_evaluate(const OpCall& call, const Tensor& operand) {
  if (is_permutation(call.node.op)) {
    Result<std::vector<std::int64_t>> order = permutation_of(call.node, operand.type().rank());
    if (!order) return order.error();
    return listed(permuted(operand, call.result(0), *order));
  }
  if (call.node.op == "aten.expand") return listed(expanded(operand, call.result(0)));
  Tensor copy = call.result(0);
  std::ranges::copy(operand.bytes(), copy.bytes().begin());
  return listed(std::move(copy));
}

Result<std::vector<ValueId>> view_gradient(const GradientCall& call) {
  const Node& node = call.node;
  const ValueId gradient = call.result_gradients[0];
  const TensorType& type = call.type(node.operands[0].value);
  if (!call.wanted[0] || node.op == "aten.detach") return std::vector<ValueId>{kNoId};
  if (node.op == "aten.alias") return std::vector<ValueId>{gradient};
  if (node.op == "aten.expand") return std::vector<ValueId>{sum_to(call.build, gradient, type)};
  if (is_permutation(node.op)) {
    Result<std::vector<std::int64_t>> order = permutation_of(node, type.rank());
    if (!order) return order.error();
    std::vector<std::int64_t> inverse(order->size());
    for (std::size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<std::size_t>((*order)[i])] = static_cast<std::int64_t>(i);
    return std::vector<ValueId>{call.build.emit("aten.permute", {{"self", gradient}}, {{"dims", inverse}}, type)};
  }
  return std::vector<ValueId>{call.build.emit("aten.view", {{"self", gradient}}, {{"size", type.shape}}, type)};
}

}  // namespace meshwright
