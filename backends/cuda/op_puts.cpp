// What is put into a table, or added to it, where indices say: the gradients of what picks elements, too.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/pointwise.h"
#include "kernels/puts.h"
#include "kernels/runs.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// An index, in the shape of the positions, and the dimension of the table that it names.
struct NamingIndex {
  Seen index;
  std::size_t dimension = 0;
};

// What is put at each of the positions and at each place of the columns: all other dimensions of the table.
struct PutRows {
  std::vector<NamingIndex> indices;
  std::vector<std::int64_t> positions, position_strides;             // strides of the values
  std::vector<std::int64_t> columns, column_strides, table_strides;  // strides of the values, and of the table
  Put put = Put::overwrite;
  bool includes_self = true, from_end = true;  // as of RunArguments and PutStartArguments
  std::vector<std::int64_t> own_strides;       // of the table: of positions that are elements
};

Status write_rows(OpWriter& writer, const PutRows& put, const Seen& values) {
  const Seen& table = writer.results[0];
  if (Status status = writer.copy(writer.operands[0], table); !status) return status;
  PutStartArguments named;
  const Result<Sizes> index_sizes = sizes_for(put.positions);
  if (!index_sizes) return index_sizes.error();
  named.positions = *index_sizes;
  std::int64_t count = 1;
  for (const std::int64_t size : put.positions) count *= size;
  std::vector<Range> reads;
  for (const NamingIndex& each : put.indices) {
    const Result<View> view = view_for(each.index, each.index.strides);
    if (!view) return view.error();
    named.indices[named.count] = *view;
    named.extents[named.count] = table.type.shape[each.dimension];
    named.strides[named.count++] = table.strides[each.dimension];
    reads.push_back(each.index.range());
  }
  std::ranges::copy(put.own_strides, named.own_strides);
  named.from_end = put.from_end;
  const Seen starts = row_starts(writer, count);
  std::vector<Range> writes{starts.range()};
  named.starts = reinterpret_cast<std::int64_t*>(starts.data);
  named.fault = writer.fault(reads, writes);
  writer.launch(KernelId::put_starts, named, count, std::move(reads), std::move(writes));

  const Walk over_positions = walk_over(put.positions, {put.position_strides}),
             over_columns = walk_over(put.columns, {put.column_strides, put.table_strides});
  const Result<Sizes> position_sizes = sizes_for(over_positions.sizes), column_sizes = sizes_for(over_columns.sizes);
  const Result<View> from = view_for(values, over_positions.strides[0]), to = view_for(table, {});
  if (!position_sizes) return position_sizes.error();
  if (!column_sizes) return column_sizes.error();
  if (!from) return from.error();
  if (!to) return to.error();
  RunArguments runs;
  for (const std::int64_t size : put.columns) runs.columns *= size;
  runs.position_sizes = *position_sizes;
  runs.column_sizes = *column_sizes;
  std::ranges::copy(over_columns.strides[0], runs.value_strides);
  std::ranges::copy(over_columns.strides[1], runs.table_strides);
  runs.put = put.put;
  runs.includes_self = put.includes_self;
  runs.alpha = writer.call.node.number("alpha", 1);
  runs.values = *from;
  runs.table = *to;
  return put_rows(writer, runs, starts, {values.range()}, table.range());
}

constexpr std::int64_t kShortLine = 128;  // positions, at which each element of the table may look

// One index for each element that is put. Where lines of them are long, each is a position of its own.
Status write_scattered(OpWriter& writer, const Seen& values, std::size_t dim, PutRows put) {
  const Seen &self = writer.operands[0], &index = writer.operands[1], &result = writer.results[0];
  if (index.type.shape[dim] > kShortLine) {
    put.indices = {{index, dim}};
    put.positions = index.type.shape;
    put.position_strides = values.strides;
    put.own_strides = result.strides;
    put.own_strides[dim] = 0;
    put.columns = put.column_strides = put.table_strides = {};
    return write_rows(writer, put, values);
  }
  PutArguments a;
  const Result<Sizes> table = sizes_for(self.type.shape);
  const Result<View> named = view_for(index, index.strides), from = view_for(self, self.strides),
                     added = view_for(values, values.strides), made = view_for(result, {});
  if (!table) return table.error();
  if (!named) return named.error();
  if (!from) return from.error();
  if (!added) return added.error();
  if (!made) return made.error();
  a.table = *table;
  a.dim = static_cast<std::int32_t>(dim);
  a.count = index.type.shape[dim];
  std::ranges::copy(index.type.shape, a.touched);
  a.put = put.put;
  a.includes_self = put.includes_self;
  a.from_end = put.from_end;
  a.index = *named;
  a.values = *added;
  a.self = *from;
  a.result = *made;
  std::vector<Range> reads{self.range(), index.range(), values.range()}, writes{result.range()};
  a.fault = writer.fault(reads, writes);
  writer.launch(KernelId::put, a, result.type.elements(), std::move(reads), std::move(writes));
  return Done{};
}

// As the families read it (plugins/ops/scatter, plugins/ops/indexing).
Result<Put> put_of(const Node& node) {
  if (node.op == "aten.scatter_add" || node.op == "aten.index_add") return Put::sum;
  if (node.op != "aten.scatter_reduce.two") return Put::overwrite;
  const std::string reduce = node.text("reduce", "");
  if (reduce == "sum") return Put::sum;
  if (reduce == "mean") return Put::mean;
  if (reduce == "prod") return Put::product;
  if (reduce == "amax") return Put::maximum;
  if (reduce == "amin") return Put::minimum;
  return bad_input("cuda has no kernel for a scatter that reduces by '" + reduce + "'");
}

// One index along one dimension: a list of positions, or, of what scatters, one for each element that is put.
Status write_along(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &self = writer.operands[0], &index = writer.operands[1];
  Seen values = writer.operands.back();
  const bool scatters = node.op.starts_with("aten.scatter");
  if (node.op == "aten.scatter.value") {
    values = writer.in_scratch(self.type.dtype, {});
    if (Status status = fill_with(writer, node.number("value", 0), values); !status) return status;
    values.type.shape = index.type.shape;
    values.strides.assign(index.strides.size(), 0);
  }
  const std::int64_t rank = self.type.rank();
  if (rank == 0 || values.type.rank() != rank || (scatters ? index.type.rank() != rank : index.type.rank() != 1))
    return bad_input("cuda has no kernel for " + node.op + " into " + to_string(self.type));
  const std::size_t dim = dimension_of(node, rank), own = scatters ? dim : 0;
  PutRows put;
  const Result<Put> what = put_of(node);
  if (!what) return what.error();
  put.put = *what;
  put.includes_self = node.boolean("include_self", true);
  put.from_end = !scatters || node.op == "aten.scatter_add";
  put.positions = {index.type.shape[own]};
  put.position_strides = {values.strides[dim]};
  for (std::size_t d = 0; d < values.strides.size(); ++d) {
    if (d == dim) continue;
    if (scatters && index.type.shape[d] > 1 && index.strides[d] != 0)
      return write_scattered(writer, values, dim, std::move(put));
    put.columns.push_back(scatters ? index.type.shape[d] : values.type.shape[d]);
    put.column_strides.push_back(values.strides[d]);
    put.table_strides.push_back(writer.results[0].strides[d]);
  }
  Seen list = index;
  list.type.shape = put.positions;
  list.strides = {index.strides[own]};
  put.indices = {{list, dim}};
  return write_rows(writer, put, values);
}

// One value where a mask is true, whose dimensions are the table's first ones.
Status write_under_mask(OpWriter& writer) {
  const Seen &self = writer.operands[0], &result = writer.results[0];
  Seen mask = writer.operands[1], value = writer.operands[2];
  mask.type.shape.resize(self.type.shape.size(), 1);
  mask.strides.resize(self.strides.size(), 0);
  value = {{value.type.dtype, {}}, value.data, {}};
  if (!writer.call.node.boolean("accumulate", false))
    return apply(writer, Function::choose, 0, {&mask, &value, &self}, result);
  const Seen sum = writer.in_scratch(self.type);
  if (Status status = combine(writer, Function::add, self, value, sum); !status) return status;
  return apply(writer, Function::choose, 0, {&mask, &sum, &self}, result);
}

// As in aten.index.Tensor: indices broadcast against each other, and their dimensions stand where the first index is,
// or in front if the dimensions that they name are not neighbours.
Status write_index_put(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &table = writer.results[0], &values = writer.operands.back();
  const std::size_t indices = writer.operands.size() - 2, rank = table.strides.size();
  if (indices == 0 || indices > PutStartArguments::kMaxIndices)
    return bad_input("cuda has a kernel for at most " + std::to_string(PutStartArguments::kMaxIndices) + " indices");
  if (indices == 1 && writer.operands[1].type.dtype == DType::boolean && named_dimension(node.operands[1].name) == 0 &&
      values.type.elements() == 1)
    return write_under_mask(writer);
  PutRows put;
  if (node.boolean("accumulate", false)) put.put = Put::sum;
  std::vector<std::int64_t>& positions = put.positions;
  std::vector<bool> is_named(rank, false);
  bool neighbours = true;
  for (std::size_t i = 1; i <= indices; ++i) {
    const TensorType& type = writer.operands[i].type;
    if (type.dtype == DType::boolean)
      return bad_input("cuda has no kernel for masks as indices, but for one value under one mask");
    const std::size_t named = named_dimension(node.operands[i].name);
    is_named[named] = true;
    neighbours = neighbours && (i == 1 || named == put.indices.back().dimension + 1);
    put.indices.push_back({writer.operands[i], named});
    if (positions.size() < type.shape.size())
      positions.insert(positions.begin(), type.shape.size() - positions.size(), 1);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      std::int64_t& size = positions[positions.size() - type.shape.size() + d];
      if (type.shape[d] != 1) size = type.shape[d];
    }
  }
  for (NamingIndex& each : put.indices) {
    each.index.strides = broadcast_strides(each.index, positions);
    each.index.type.shape = positions;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (is_named[d]) continue;
    put.columns.push_back(table.type.shape[d]);
    put.table_strides.push_back(table.strides[d]);
  }
  // The shape of what is put, once it is broadcast, and its strides.
  const auto front = static_cast<std::ptrdiff_t>(neighbours ? put.indices[0].dimension : 0),
             behind = front + static_cast<std::ptrdiff_t>(positions.size());
  std::vector<std::int64_t> picked = put.columns;
  picked.insert(picked.begin() + front, positions.begin(), positions.end());
  if (values.strides.size() > picked.size())
    return bad_input("cuda has no kernel for " + node.op + " of " + to_string(values.type));
  std::vector<std::int64_t> strides = broadcast_strides(values, picked);
  put.position_strides.assign(strides.begin() + front, strides.begin() + behind);
  strides.erase(strides.begin() + front, strides.begin() + behind);
  put.column_strides = std::move(strides);
  return write_rows(writer, put, values);
}

}  // namespace

WriteOp put_op(std::string_view op) {
  if (op == "aten.scatter_add" || op == "aten.scatter.src" || op == "aten.scatter.value" ||
      op == "aten.scatter_reduce.two" || op == "aten.index_add" || op == "aten.index_copy")
    return write_along;
  return op == "aten.index_put" ? write_index_put : nullptr;
}

}  // namespace meshwright::cuda
