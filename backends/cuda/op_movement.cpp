// Ops that only move elements.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "kernels/movement.h"
#include "kernels/pointwise.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// Views that are copied, since what they see changes while they are needed.
Status write_views(OpWriter& writer) {
  Seen source = writer.operands[0];
  for (std::size_t i = 0; i < writer.results.size(); ++i) {
    Result<std::optional<Seen>> seen = writer.views.find(source, writer.call, i);
    if (!seen) return seen.error();
    if (!*seen) {
      Result<Seen> rows = writer.in_rows(source);
      if (!rows) return rows.error();
      source = std::move(*rows);
      seen = writer.views.find(source, writer.call, i);
      if (!seen) return seen.error();
      if (!*seen) return internal_error(writer.call.node.op + " is no view of its operand");
    }
    if (Status status = writer.copy(**seen, writer.results[i]); !status) return status;
  }
  return Done{};
}

// One after the other along a dimension.
Status join(OpWriter& writer, const std::vector<const Seen*>& parts, std::size_t dim, const Seen& result) {
  std::vector<std::int64_t> start(result.strides.size(), 0);
  for (const Seen* part : parts) {
    if (part->type.rank() != result.type.rank()) continue;  // an empty one
    if (Status status = writer.copy(*part, part_of(result, start, part->type.shape)); !status) return status;
    start[dim] += part->type.shape[dim];
  }
  return Done{};
}

Status write_join(OpWriter& writer) {
  const std::string& op = writer.call.node.op;
  Seen& result = writer.results[0];
  const std::int64_t rank = writer.operands[0].type.rank();
  // Vectors, or numbers, become columns or rows.
  const bool stacks = op == "aten.stack" || (rank < 2 && (op == "aten.vstack" || op == "aten.column_stack"));
  const bool has_own = op == "aten.cat" || op == "aten.concat" || op == "aten.stack";
  const std::size_t dim = has_own               ? dimension_of(writer.call.node, result.type.rank(), 0)
                          : op == "aten.vstack" ? 0
                          : op == "aten.hstack" ? (rank < 2 ? 0 : 1)
                                                : 1;
  std::vector<Seen> taken(writer.operands.begin(), writer.operands.end());
  std::vector<const Seen*> parts;
  for (Seen& part : taken) {
    if (stacks) {
      part.type.shape.insert(part.type.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
      part.strides.insert(part.strides.begin() + static_cast<std::ptrdiff_t>(dim), 0);
    }
    parts.push_back(&part);
  }
  if (parts[0]->type.rank() == result.type.rank()) result.lie_in_order_of(*parts[0]);
  return join(writer, parts, dim, result);
}

// Each operand along a dimension of its own, the same along all others; "xy" turns the first two round.
Status write_grid(OpWriter& writer) {
  const bool turned = writer.call.node.text("indexing", "ij") == "xy" && writer.operands.size() > 1;
  for (std::size_t i = 0; i < writer.operands.size(); ++i) {
    const std::size_t dim = turned && i < 2 ? 1 - i : i;
    const Seen &from = writer.operands[i], &result = writer.results[i];
    Seen spread{{from.type.dtype, result.type.shape}, from.data, std::vector<std::int64_t>(result.strides.size(), 0)};
    if (!from.strides.empty()) spread.strides[dim] = from.strides[0];
    if (Status status = writer.copy(spread, result); !status) return status;
  }
  return Done{};
}

// So many copies along each dimension, of which there may be more than the tensor has.
Status write_repeat(OpWriter& writer) {
  const std::vector<std::int64_t> repeats =
      writer.call.node.integers(writer.call.node.op == "aten.tile" ? "dims" : "repeats");
  const Seen &from = writer.operands[0], &result = writer.results[0];
  const std::size_t rank = result.type.shape.size(), own = rank - from.type.shape.size(),
                    given = rank - std::min(rank, repeats.size());
  Seen source{{from.type.dtype, {}}, from.data, {}}, target{{from.type.dtype, {}}, result.data, {}};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = d < own ? 1 : from.type.shape[d - own], stride = d < own ? 0 : from.strides[d - own];
    for (Seen* each : {&source, &target}) {
      each->type.shape.push_back(d < given ? 1 : repeats[d - given]);
      each->type.shape.push_back(size);
    }
    source.strides.insert(source.strides.end(), {0, stride});
    target.strides.insert(target.strides.end(), {result.strides[d] * size, result.strides[d]});
  }
  return writer.copy(source, target);
}

// Each position along a dimension so many times.
Status write_interleave(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &from = writer.operands[0], &result = writer.results[0];
  if (!node.attributes.contains("dim")) return bad_input("cuda has no kernel for a repetition of a flattened tensor");
  const std::size_t dim = dimension_of(node, from.type.rank(), 0);
  const std::int64_t size = from.type.shape[dim], times = size == 0 ? 0 : result.type.shape[dim] / size;
  Seen source = from, target = result;
  const auto at = static_cast<std::ptrdiff_t>(dim);
  target.type.shape[dim] = size;
  target.strides[dim] *= times;
  for (Seen* each : {&source, &target}) {
    each->type.shape.insert(each->type.shape.begin() + at + 1, times);
    each->strides.insert(each->strides.begin() + at + 1, each == &source ? 0 : result.strides[dim]);
  }
  return writer.copy(source, target);
}

// The first half along a dimension, times the sigmoid of the second one.
struct Halves {
  Seen value, gate;
};
Halves halves_of(const Seen& whole, std::size_t dim) {
  std::vector<std::int64_t> start(whole.strides.size(), 0), shape = whole.type.shape;
  shape[dim] /= 2;
  Halves halves{part_of(whole, start, shape), {}};
  start[dim] = shape[dim];
  halves.gate = part_of(whole, start, shape);
  return halves;
}

Status write_gated(OpWriter& writer) {
  const Seen &self = *writer.operand("self"), &result = writer.results[0];
  const std::size_t dim = dimension_of(writer.call.node, self.type.rank(), -1);
  const Halves from = halves_of(self, dim);
  const TensorType type{self.type.dtype == DType::float64 ? DType::float64 : DType::float32, from.value.type.shape};
  const auto between = [&] { return writer.in_scratch(type); };
  const Seen open = between();
  if (Status status = apply(writer, Function::sigmoid, 0, {&from.gate}, open); !status) return status;
  const Seen* gradient = writer.operand("grad_output");
  if (gradient == nullptr) return combine(writer, Function::multiply, from.value, open, result);
  const Halves to = halves_of(result, dim);
  const Seen weighed = between();
  if (Status status = combine(writer, Function::multiply, *gradient, open, to.value); !status) return status;
  if (Status status = combine(writer, Function::multiply, *gradient, from.value, weighed); !status) return status;
  return combine(writer, Function::sigmoid_slope, weighed, open, to.gate);
}

// Where a kernel finds the elements of a tensor, and where those of a result of its shape go.
template <class Arguments>
Status set_places(const Seen& from, const Seen& result, Arguments& arguments) {
  const Result<Sizes> sizes = sizes_for(result.type.shape);
  const Result<View> source = view_for(from, from.strides), target = view_for(result, result.strides);
  if (!sizes) return sizes.error();
  if (!source) return source.error();
  if (!target) return target.error();
  arguments.sizes = *sizes;
  arguments.from = *source;
  arguments.to = *target;
  return Done{};
}

// Along each of these dimensions the last one first: a part of one position each.
Status write_flip(OpWriter& writer) {
  const Seen &from = writer.operands[0], &result = writer.results[0];
  FlipArguments arguments;
  if (Status status = set_places(from, result, arguments); !status) return status;
  for (const std::int64_t named : writer.call.node.integers("dims"))
    arguments.is_flipped[named < 0 ? named + from.type.rank() : named] = true;
  writer.launch(KernelId::flip, arguments, result.type.elements(), {from.range()}, {result.range()});
  return Done{};
}

Status write_triangle(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &from = writer.operands[0], &result = writer.results[0];
  TriangleArguments arguments;
  if (Status status = set_places(from, result, arguments); !status) return status;
  const std::vector<std::int64_t>& shape = result.type.shape;
  const Result<Shard> rows = shard_of(node, "rows", shape[shape.size() - 2]),
                      columns = shard_of(node, "columns", shape.back());
  if (!rows) return rows.error();
  if (!columns) return columns.error();
  arguments.rows = *rows;
  arguments.columns = *columns;
  arguments.upper = node.op == "aten.triu";
  arguments.diagonal = node.integer("diagonal", 0);
  writer.launch(KernelId::triangle, arguments, result.type.elements(), {from.range()}, {result.range()});
  return Done{};
}

// The differences of what is joined, and of these, so often.
Status write_difference(OpWriter& writer) {
  const Seen& result = writer.results[0];
  const std::size_t dim = dimension_of(writer.call.node, result.type.rank(), -1);
  std::vector<const Seen*> parts;
  TensorType type{result.type.dtype, result.type.shape};
  for (const char* name : {"prepend", "self", "append"}) {
    if (const Seen* part = writer.operand(name)) parts.push_back(part);
  }
  const std::int64_t times = writer.call.node.integer("n", 1);
  type.shape[dim] += times;
  Seen whole = *writer.operand("self");
  if (parts.size() > 1) {
    whole = writer.in_scratch(type);
    if (Status status = join(writer, parts, dim, whole); !status) return status;
  }
  if (times == 0) return writer.copy(whole, result);
  const bool is_boolean = result.type.dtype == DType::boolean;
  std::vector<std::int64_t> start(type.shape.size(), 0);
  for (std::int64_t left = times; left > 0; --left) {
    --type.shape[dim];
    const Seen differences =
        left == 1 ? result : writer.in_scratch(is_floating(type.dtype) ? DType::float64 : type.dtype, type.shape);
    start[dim] = 0;
    const Seen earlier = part_of(whole, start, type.shape);
    start[dim] = 1;
    if (Status status = combine(writer, is_boolean ? Function::not_equal : Function::subtract,
                                part_of(whole, start, type.shape), earlier, differences);
        !status)
      return status;
    whole = differences;
  }
  return Done{};
}

// What moves round along some dimensions: up to two parts along each.
Status roll(OpWriter& writer, const Seen& from, const Seen& result, std::span<const std::int64_t> distances) {
  std::vector<std::int64_t> source(distances.size(), 0), target = source, shape = from.type.shape;
  const std::function<Status(std::size_t)> from_dimension = [&](std::size_t d) -> Status {
    if (d == distances.size()) return writer.copy(part_of(from, source, shape), part_of(result, target, shape));
    const std::int64_t size = from.type.shape[d], stays = size - distances[d];
    for (const bool wraps : {false, true}) {
      source[d] = wraps ? stays : 0;
      target[d] = wraps ? 0 : distances[d];
      shape[d] = wraps ? distances[d] : stays;
      if (shape[d] == 0) continue;
      if (Status status = from_dimension(d + 1); !status) return status;
    }
    shape[d] = size;
    return Done{};
  };
  return from_dimension(0);
}

Status write_roll(OpWriter& writer) {
  const Node& node = writer.call.node;
  const std::vector<std::int64_t> dims = node.integers("dims"), shifts = node.integers("shifts");
  const Seen &from = writer.operands[0], &result = writer.results[0];
  if (from.type.elements() == 0) return Done{};
  const auto distance = [](std::int64_t shift, std::int64_t size) { return (shift % size + size) % size; };
  if (dims.empty()) {  // as if it had one dimension
    const Result<Seen> rows = writer.in_rows(from);
    if (!rows) return rows.error();
    const TensorType line{from.type.dtype, {from.type.elements()}};
    const std::int64_t distances[] = {shifts.empty() ? 0 : distance(shifts[0], from.type.elements())};
    return roll(writer, seen_at(rows->data, line), seen_at(result.data, line), distances);
  }
  std::vector<std::int64_t> distances(from.type.shape.size(), 0);
  for (std::size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims[i] < 0 ? dims[i] + from.type.rank() : dims[i]);
    distances[d] = distance(distances[d] + shifts[i], from.type.shape[d]);
  }
  return roll(writer, from, result, distances);
}

// What slices hold goes into the whole; what one position holds, too, which lacks its dimension.
Status put_slice(OpWriter& writer, const Seen& from) {
  const Node& node = writer.call.node;
  const Seen& result = writer.results[0];
  const std::size_t dim = dimension_of(node, result.type.rank(), 0);
  const bool selects = node.op.starts_with("aten.select");
  const std::int64_t size = result.type.shape[dim], named = node.integer(selects ? "index" : "start", 0);
  std::vector<std::int64_t> start(result.type.shape.size(), 0);
  start[dim] = std::clamp<std::int64_t>(named < 0 ? named + size : named, 0, size);
  if (selects) {
    std::vector<std::int64_t> shape = result.type.shape;
    shape[dim] = 1;
    Seen position = part_of(result, start, shape);
    position.type.shape.erase(position.type.shape.begin() + static_cast<std::ptrdiff_t>(dim));
    position.strides.erase(position.strides.begin() + static_cast<std::ptrdiff_t>(dim));
    return writer.copy(from, position);
  }
  Seen taken = part_of(result, start, from.type.shape);
  taken.strides[dim] *= node.integer("step", 1);
  return writer.copy(from, taken);
}

// The gradient of what a slice took: zeros around it.
Status write_slice_gradient(OpWriter& writer) {
  const Seen& gradient = writer.operands[0];
  if (gradient.type.rank() == writer.results[0].type.rank()) writer.results[0].lie_in_order_of(gradient);
  if (Status status = fill_with(writer, 0, writer.results[0]); !status) return status;
  return put_slice(writer, gradient);
}

Status write_slice_scatter(OpWriter& writer) {
  if (Status status = writer.copy(writer.operands[0], writer.results[0]); !status) return status;
  return put_slice(writer, writer.operands[1]);
}

constexpr std::string_view kJoins[] = {"aten.cat",    "aten.concat", "aten.stack",
                                       "aten.hstack", "aten.vstack", "aten.column_stack"};

constexpr std::string_view kViews[] = {"aten.view",
                                       "aten.reshape",
                                       "aten._unsafe_view",
                                       "aten.permute",
                                       "aten.transpose.int",
                                       "aten.t",
                                       "aten.expand",
                                       "aten.slice.Tensor",
                                       "aten.select.int",
                                       "aten.unsqueeze",
                                       "aten.squeeze",
                                       "aten.squeeze.dim",
                                       "aten.squeeze.dims",
                                       "aten.split.Tensor",
                                       "aten.split_with_sizes",
                                       "aten.chunk",
                                       "aten.unbind.int",
                                       "aten.detach",
                                       "aten.flatten.using_ints",
                                       "aten.unflatten.int",
                                       "aten.diagonal",
                                       "aten.unfold"};

}  // namespace

Seen part_of(const Seen& whole, const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < start.size(); ++d) at += start[d] * whole.strides[d];
  return {{whole.type.dtype, shape},
          whole.data + static_cast<std::ptrdiff_t>(at * static_cast<std::int64_t>(whole.element_bytes())),
          whole.strides};
}

WriteOp movement_op(std::string_view op) {
  if (std::ranges::find(kViews, op) != std::end(kViews)) return write_views;
  if (op == "aten.roll") return write_roll;
  if (op == "aten.diff") return write_difference;
  if (op == "aten.slice_scatter" || op == "aten.select_scatter") return write_slice_scatter;
  if (op == "aten.slice_backward" || op == "aten.select_backward") return write_slice_gradient;
  if (op == "aten.repeat" || op == "aten.tile") return write_repeat;
  if (op == "aten.repeat_interleave.self_int") return write_interleave;
  if (op == "aten.glu" || op == "aten.glu_backward") return write_gated;
  if (op == "aten.meshgrid" || op == "aten.meshgrid.indexing") return write_grid;
  if (op == "aten.flip") return write_flip;
  if (op == "aten.tril" || op == "aten.triu") return write_triangle;
  return std::ranges::find(kJoins, op) != std::end(kJoins) ? write_join : nullptr;
}

}  // namespace meshwright::cuda
