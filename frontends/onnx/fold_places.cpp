// Folding of ops that move elements, and of sums and ranges.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fold_ops.h"

namespace meshwright::onnx {

namespace {

// The row-major index of element `at`.
Shape index_of(std::int64_t at, const Shape& strides) {
  Shape index(strides.size());
  for (std::size_t i = 0; i < strides.size(); ++i) {
    index[i] = at / strides[i];
    at %= strides[i];
  }
  return index;
}

Folded with_shape(const Literal& literal, std::optional<Shape> shape) {
  if (!shape || product(*shape) != static_cast<std::int64_t>(literal.size())) return std::nullopt;
  Literal result = literal;
  result.type.shape = std::move(*shape);
  return result;
}

// Every element of the result from the operand's element that `source` names by index.
template <class Source>
Folded picked(const Literal& operand, Shape shape, Source source) {
  Folded result = blank(operand.type.dtype, std::move(shape));
  if (!result) return std::nullopt;
  const Shape to = strides_for(result->type.shape), from = strides_for(operand.type.shape);
  for (std::int64_t i = 0; i < product(result->type.shape); ++i) {
    const Shape index = source(index_of(i, to));
    append(*result, operand,
           static_cast<std::size_t>(std::inner_product(index.begin(), index.end(), from.begin(), std::int64_t{0})));
  }
  return result;
}

Folded fold_gather(const ModelNode& node, const Literal& data, const Literal& indices) {
  const auto axis = from_front(integer_attribute(node, "axis", 0), data.type.rank());
  if (!axis || indices.is_real()) return std::nullopt;
  const std::int64_t size = data.type.shape[*axis];
  for (const std::int64_t index : indices.integers) {
    if (index < -size || index >= size) return std::nullopt;
  }
  Shape shape = data.type.shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis), indices.type.shape.begin(),
               indices.type.shape.end());
  const Shape strides = strides_for(indices.type.shape);
  return picked(data, std::move(shape), [&](const Shape& at) {
    Shape source(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(*axis));
    std::int64_t which = 0;
    for (std::size_t i = 0; i < strides.size(); ++i) which += at[*axis + i] * strides[i];
    const std::int64_t position = indices.integers[static_cast<std::size_t>(which)];
    source.push_back(position < 0 ? position + size : position);
    source.insert(source.end(), at.begin() + static_cast<std::ptrdiff_t>(*axis + strides.size()), at.end());
    return source;
  });
}

Folded fold_transpose(const ModelNode& node, const Literal& data) {
  std::vector<std::int64_t> order = integers_attribute(node, "perm");
  if (order.empty()) {
    order.resize(data.type.shape.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  if (order.size() != data.type.shape.size()) return std::nullopt;
  Shape shape;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= data.type.rank()) return std::nullopt;
    shape.push_back(data.type.shape[static_cast<std::size_t>(axis)]);
  }
  return picked(data, std::move(shape), [&](const Shape& at) {
    Shape source(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) source[static_cast<std::size_t>(order[i])] = at[i];
    return source;
  });
}

Folded fold_expand(const Literal& data, const Literal& wanted) {
  const std::optional<Shape> shape = broadcast(data.type.shape, wanted.integers);
  if (!shape) return std::nullopt;
  const std::size_t missing = shape->size() - data.type.shape.size();
  return picked(data, *shape, [&](const Shape& at) {
    Shape source(at.begin() + static_cast<std::ptrdiff_t>(missing), at.end());
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = data.type.shape[i] == 1 ? 0 : source[i];
    return source;
  });
}

Folded fold_slice(const Literal& data, const Operands& operands) {
  if (operands.size() < 3 || operands[1] == nullptr || operands[2] == nullptr) return std::nullopt;
  std::vector<SliceRange> ranges;
  for (const std::int64_t size : data.type.shape) ranges.push_back({0, size, 1});
  const Literal* axes = operands.size() > 3 ? operands[3] : nullptr;
  const Literal* steps = operands.size() > 4 ? operands[4] : nullptr;
  for (std::size_t i = 0; i < operands[1]->integers.size(); ++i) {
    const auto axis = from_front(axes ? axes->integers.at(i) : static_cast<std::int64_t>(i), data.type.rank());
    if (!axis) return std::nullopt;
    const std::int64_t step = steps ? steps->integers.at(i) : 1;
    if (step == 0) return std::nullopt;
    ranges[*axis] = slice_range(operands[1]->integers[i], operands[2]->integers.at(i), step, data.type.shape[*axis]);
  }
  Shape shape;
  for (const SliceRange& range : ranges) shape.push_back(range.count);
  return picked(data, std::move(shape), [&](const Shape& at) {
    Shape source(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) source[i] = ranges[i].start + at[i] * ranges[i].step;
    return source;
  });
}

Folded fold_concat(const ModelNode& node, const Operands& operands) {
  const auto axis = from_front(integer_attribute(node, "axis", 0), operands[0]->type.rank());
  if (!axis) return std::nullopt;
  Shape shape = operands[0]->type.shape;
  shape[*axis] = 0;
  for (const Literal* operand : operands) {
    if (operand->type.dtype != operands[0]->type.dtype || operand->type.rank() != operands[0]->type.rank())
      return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i != *axis && operand->type.shape[i] != shape[i]) return std::nullopt;
    }
    shape[*axis] += operand->type.shape[*axis];
  }
  Folded result = blank(operands[0]->type.dtype, shape);
  if (!result) return std::nullopt;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < *axis; ++i) rows *= shape[i];
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Literal* operand : operands) {
      const auto length = rows == 0 ? 0 : static_cast<std::int64_t>(operand->size()) / rows;
      for (std::int64_t i = 0; i < length; ++i) append(*result, *operand, static_cast<std::size_t>(row * length + i));
    }
  }
  return result;
}

Folded fold_range(const Operands& operands) {
  if (operands.size() != 3 || operands[0]->size() != 1 || operands[1]->size() != 1 || operands[2]->size() != 1)
    return std::nullopt;
  if (operands[1]->type.dtype != operands[0]->type.dtype || operands[2]->type.dtype != operands[0]->type.dtype) return std::nullopt;
  const double start = operands[0]->number(0), limit = operands[1]->number(0), delta = operands[2]->number(0);
  const double count = delta == 0 ? -1 : std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count >= 0 && count <= static_cast<double>(kLargestLiteral))) return std::nullopt;
  Folded result = blank(operands[0]->type.dtype, {static_cast<std::int64_t>(count)});
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    if (result->is_real())
      result->reals.push_back(start + static_cast<double>(i) * delta);
    else
      result->integers.push_back(wrapped_sum(operands[0]->integers[0], wrapped_product(i, operands[2]->integers[0])));
  }
  round_to_type(*result);
  return result;
}

Folded fold_constant_of_shape(const ModelNode& node, const Literal& shape) {
  DType dtype = DType::float32;
  std::optional<Literal> filling;
  if (const auto value = node.attributes.find("value"); value != node.attributes.end()) {
    const auto* stored = std::get_if<StoredTensor>(&value->second);
    if (stored == nullptr || stored->type.elements() != 1 || stored->bytes.empty()) return std::nullopt;
    Tensor tensor(stored->type);
    std::copy_n(reinterpret_cast<const std::byte*>(stored->bytes.data()), stored->bytes.size(), tensor.bytes().begin());
    filling = literal_of(tensor);
    dtype = stored->type.dtype;
  }
  Folded result = blank(dtype, shape.integers);
  if (!result) return std::nullopt;
  const auto count = static_cast<std::size_t>(product(shape.integers));
  if (result->is_real())
    result->reals.assign(count, filling ? filling->number(0) : 0.0);
  else
    result->integers.assign(count, filling ? filling->integers[0] : 0);
  return result;
}

Folded fold_trilu(const ModelNode& node, const Operands& operands) {
  const Literal& data = *operands[0];
  if (data.type.rank() < 2) return std::nullopt;
  const std::int64_t k = operands.size() > 1 && operands[1] != nullptr ? operands[1]->integers.at(0) : 0;
  const bool upper = integer_attribute(node, "upper", 1) != 0;
  Literal result = data;
  const std::int64_t columns = data.type.shape.back(), rows = data.type.shape[data.type.shape.size() - 2];
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t row = at / columns % rows, column = at % columns;
    if (upper ? column - row >= k : column - row <= k) continue;
    if (result.is_real())
      result.reals[i] = 0;
    else
      result.integers[i] = 0;
  }
  return result;
}

Folded fold_scatter(const ModelNode& node, const Operands& operands) {
  const auto reduction = node.attributes.find("reduction");
  if (reduction != node.attributes.end()) {
    const auto* text = std::get_if<std::string>(&reduction->second);
    if (text == nullptr || *text != "none") return std::nullopt;
  }
  if (operands.size() != 3 || operands[1]->type.rank() < 1) return std::nullopt;
  const Literal &indices = *operands[1], &updates = *operands[2];
  Literal result = *operands[0];
  const std::int64_t columns = indices.type.shape.back(), rank = result.type.rank();
  if (columns < 1 || columns > rank || updates.type.dtype != result.type.dtype) return std::nullopt;
  const Shape strides = strides_for(result.type.shape);
  const std::int64_t length = strides[static_cast<std::size_t>(columns) - 1];
  const std::int64_t rows = static_cast<std::int64_t>(indices.size()) / columns;
  if (static_cast<std::int64_t>(updates.size()) != rows * length) return std::nullopt;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t to = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t size = result.type.shape[static_cast<std::size_t>(column)];
      std::int64_t at = indices.integers[static_cast<std::size_t>(row * columns + column)];
      if (at < -size || at >= size) return std::nullopt;
      to += (at < 0 ? at + size : at) * strides[static_cast<std::size_t>(column)];
    }
    for (std::int64_t i = 0; i < length; ++i) {
      if (result.is_real())
        result.reals[static_cast<std::size_t>(to + i)] = updates.reals[static_cast<std::size_t>(row * length + i)];
      else
        result.integers[static_cast<std::size_t>(to + i)] =
            updates.integers[static_cast<std::size_t>(row * length + i)];
    }
  }
  return result;
}

Folded fold_cumsum(const ModelNode& node, const Operands& operands) {
  if (operands.size() < 2 || operands[1]->size() != 1) return std::nullopt;
  const auto axis = from_front(operands[1]->integers.at(0), operands[0]->type.rank());
  if (!axis || integer_attribute(node, "exclusive", 0) != 0 || integer_attribute(node, "reverse", 0) != 0)
    return std::nullopt;
  Literal result = *operands[0];
  const std::int64_t stride = strides_for(result.type.shape)[*axis], size = result.type.shape[*axis];
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.size()); ++i) {
    if (i / stride % size == 0) continue;
    const auto at = static_cast<std::size_t>(i), before = static_cast<std::size_t>(i - stride);
    if (result.is_real())
      result.reals[at] += result.reals[before];
    else
      result.integers[at] = wrapped_sum(result.integers[at], result.integers[before]);
  }
  return result;
}

Folded fold_reduction(const ModelNode& node, const Operands& operands) {
  const Literal& data = *operands[0];
  std::vector<std::int64_t> axes =
      operands.size() > 1 && operands[1] != nullptr ? operands[1]->integers : integers_attribute(node, "axes");
  if (!axes.empty() && !(axes.size() == 1 && data.type.rank() == 1))
    return std::nullopt;  // over everything, as for shapes
  if (data.size() == 0) return std::nullopt;
  const bool keep = integer_attribute(node, "keepdims", 1) != 0;
  Folded result = blank(data.type.dtype, keep ? Shape(data.type.shape.size(), 1) : Shape{});
  double real = data.number(0);
  std::int64_t whole = data.is_real() ? 0 : data.integers[0];
  for (std::size_t i = 1; i < data.size(); ++i) {
    const double next = data.number(i);
    const std::int64_t next_whole = data.is_real() ? 0 : data.integers[i];
    if (node.op == "ReduceProd")
      real *= next, whole = wrapped_product(whole, next_whole);
    else if (node.op == "ReduceSum")
      real += next, whole = wrapped_sum(whole, next_whole);
    else if (node.op == "ReduceMax")
      real = std::max(real, next), whole = std::max(whole, next_whole);
    else
      real = std::min(real, next), whole = std::min(whole, next_whole);
  }
  if (result->is_real())
    result->reals.push_back(real);
  else
    result->integers.push_back(whole);
  round_to_type(*result);
  return result;
}

std::optional<Shape> unsqueezed(const Literal& data, const std::vector<std::int64_t>& axes) {
  const std::int64_t rank = data.type.rank() + static_cast<std::int64_t>(axes.size());
  Shape shape(static_cast<std::size_t>(rank), -1);
  for (const std::int64_t axis : axes) {
    const auto at = from_front(axis, rank);
    if (!at || shape[*at] == 1) return std::nullopt;
    shape[*at] = 1;
  }
  auto next = data.type.shape.begin();
  for (std::int64_t& size : shape) {
    if (size == -1) size = *next++;
  }
  return shape;
}

}  // namespace

Folded fold_places(const ModelNode& node, const Operands& operands) {
  const Literal& data = *operands[0];
  const std::string& op = node.op;
  if (op == "Transpose") return fold_transpose(node, data);
  if (op == "ConstantOfShape") return fold_constant_of_shape(node, data);
  if (op == "Slice") return fold_slice(data, operands);
  if (op == "Squeeze" && operands.size() < 2) {
    Shape shape;
    std::copy_if(data.type.shape.begin(), data.type.shape.end(), std::back_inserter(shape),
                 [](std::int64_t size) { return size != 1; });
    return with_shape(data, shape);
  }
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin")
    return fold_reduction(node, operands);
  if (op == "Trilu") return fold_trilu(node, operands);
  for (const Literal* operand : operands) {
    if (operand == nullptr) return std::nullopt;
  }
  if (op == "Concat") return fold_concat(node, operands);
  if (op == "ScatterND") return fold_scatter(node, operands);
  if (op == "Range") return fold_range(operands);
  if (op == "CumSum") return fold_cumsum(node, operands);
  if (operands.size() != 2 || operands[1]->is_real()) return std::nullopt;
  const std::vector<std::int64_t>& second = operands[1]->integers;
  if (op == "Gather") return fold_gather(node, data, *operands[1]);
  if (op == "Expand") return fold_expand(data, *operands[1]);
  if (op == "Reshape")
    return with_shape(data, reshaped(data.type.shape, second, integer_attribute(node, "allowzero", 0) != 0));
  if (op == "Unsqueeze") return with_shape(data, unsqueezed(data, second));
  if (op == "Squeeze") {
    std::vector<std::size_t> axes;
    for (const std::int64_t axis : second) {
      const auto at = from_front(axis, data.type.rank());
      if (!at || data.type.shape[*at] != 1) return std::nullopt;
      axes.push_back(*at);
    }
    return with_shape(data, reduced(data.type.shape, axes, false));
  }
  return std::nullopt;
}

}  // namespace meshwright::onnx
