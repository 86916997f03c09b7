// What is put into a table, or added to it, where indices say: the gradients of what picks elements, too.
#include <algorithm>
#include <charconv>
#include <string>

#include "kernels/puts.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// What all of these have: a table, what is put, and where the result lies.
Result<PutArguments> begin_put(OpWriter& writer, const Seen& put) {
  const Seen &self = writer.operands[0], &result = writer.results[0];
  PutArguments a;
  const Result<Sizes> table = sizes_for(self.type.shape);
  const Result<View> from = view_for(self, self.strides), values = view_for(put, {}), made = view_for(result, {});
  if (!table) return table.error();
  if (!from) return from.error();
  if (!values) return values.error();
  if (!made) return made.error();
  a.table = *table;
  a.self = *from;
  a.values = *values;
  a.result = *made;
  a.alpha = writer.call.node.number("alpha", 1);
  std::ranges::fill(a.index_of, -1);
  std::ranges::copy(self.type.shape, a.touched);
  return a;
}

void launch(OpWriter& writer, PutArguments& arguments, const Seen& values) {
  std::vector<Range> reads, writes{writer.results[0].range()};
  arguments.fault = writer.fault(reads, writes);
  for (const Seen& operand : writer.operands) reads.push_back(operand.range());
  reads.push_back(values.range());
  writer.launch(KernelId::put, arguments, writer.results[0].type.elements(), std::move(reads), std::move(writes));
}

// One index along one dimension: a list of positions, or, of scatter_add, one for each element that is added.
Status write_along(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen& index = writer.operands[1];
  Seen values = writer.operands.back();
  const bool scatters = node.op.starts_with("aten.scatter");
  if (node.op == "aten.scatter.value") {
    values = seen_at(writer.scratch(static_cast<std::size_t>(size_bytes(writer.operands[0].type.dtype))),
                     {writer.operands[0].type.dtype, {}});
    if (Status status = fill_with(writer, node.number("value", 0), values); !status) return status;
    values.type.shape = index.type.shape;
    values.strides.assign(index.strides.size(), 0);
  }
  Result<PutArguments> a = begin_put(writer, values);
  if (!a) return a.error();
  const std::int64_t rank = a->table.rank;
  if (rank == 0 || values.type.rank() != rank || (scatters ? index.type.rank() != rank : index.type.rank() != 1))
    return bad_input("cuda has no kernel for " + node.op + " into " + to_string(writer.operands[0].type));
  const std::size_t dim = dimension_of(node, rank);
  const Result<View> view = view_for(index, {});
  if (!view) return view.error();
  const std::size_t own = scatters ? dim : 0;
  a->adds = node.op == "aten.scatter_add" || node.op == "aten.index_add";
  a->index_of[dim] = 0;
  a->positions.rank = 1;
  a->positions.of[0] = a->count = index.type.shape[own];
  a->indices[0] = *view;
  a->indices[0].strides[0] = index.strides[own];
  a->values.strides[0] = values.strides[dim];
  for (std::size_t d = 0; d < values.strides.size(); ++d) {
    if (d == dim) continue;
    a->value_strides[d] = values.strides[d];
    if (!scatters) continue;
    a->index_strides[d] = index.strides[d];
    a->touched[d] = index.type.shape[d];
  }
  launch(writer, *a, values);
  return Done{};
}

// As in aten.index.Tensor: indices broadcast against each other, and their dimensions stand where the first index is,
// or in front if the dimensions that they name are not neighbours.
Status write_index_put(OpWriter& writer) {
  const Node& node = writer.call.node;
  Result<PutArguments> a = begin_put(writer, writer.operands.back());
  if (!a) return a.error();
  const std::size_t indices = writer.operands.size() - 2, rank = writer.operands[0].strides.size();
  if (indices == 0 || indices > PutArguments::kMaxIndices)
    return bad_input("cuda has a kernel for at most " + std::to_string(PutArguments::kMaxIndices) + " indices");
  std::vector<std::int64_t> positions;
  bool neighbours = true;
  std::size_t first = rank;
  for (std::size_t i = 1; i <= indices; ++i) {
    const TensorType& type = writer.operands[i].type;
    if (type.dtype == DType::boolean) return bad_input("cuda has no kernel for masks as indices");
    const std::size_t named = named_dimension(node.operands[i].name);
    a->index_of[named] = static_cast<std::int32_t>(i) - 1;
    if (i > 1) neighbours = neighbours && named == named_dimension(node.operands[i - 1].name) + 1;
    first = std::min(first, named);
    if (positions.size() < type.shape.size())
      positions.insert(positions.begin(), type.shape.size() - positions.size(), 1);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      std::int64_t& size = positions[positions.size() - type.shape.size() + d];
      if (type.shape[d] != 1) size = type.shape[d];
    }
  }
  const std::size_t front = neighbours ? first : 0;
  const Result<Sizes> sizes = sizes_for(positions);
  if (!sizes) return sizes.error();
  a->adds = node.boolean("accumulate", false);
  a->positions = *sizes;
  a->count = 1;
  for (const std::int64_t size : positions) a->count *= size;
  for (std::size_t i = 0; i < indices; ++i) {
    const Result<View> view = view_for(writer.operands[i + 1], broadcast_strides(writer.operands[i + 1], positions));
    if (!view) return view.error();
    a->indices[i] = *view;
  }
  // The shape of what is put, once it is broadcast, and its strides.
  std::vector<std::int64_t> picked;
  for (std::size_t d = 0; d < rank; ++d) {
    if (a->index_of[d] < 0) picked.push_back(writer.operands[0].type.shape[d]);
  }
  picked.insert(picked.begin() + static_cast<std::ptrdiff_t>(front), positions.begin(), positions.end());
  if (writer.operands.back().strides.size() > picked.size())
    return bad_input("cuda has no kernel for " + node.op + " of " + to_string(writer.operands.back().type));
  const std::vector<std::int64_t> strides = broadcast_strides(writer.operands.back(), picked);
  for (std::size_t d = 0; d < positions.size(); ++d) a->values.strides[d] = strides[front + d];
  std::size_t next = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (a->index_of[d] >= 0) continue;
    if (next == front) next += positions.size();
    a->value_strides[d] = strides[next++];
  }
  launch(writer, *a, writer.operands.back());
  return Done{};
}

}  // namespace

WriteOp put_op(std::string_view op) {
  if (op == "aten.scatter_add" || op == "aten.scatter.src" || op == "aten.scatter.value" || op == "aten.index_add" ||
      op == "aten.index_copy")
    return write_along;
  return op == "aten.index_put" ? write_index_put : nullptr;
}

}  // namespace meshwright::cuda
