// Embeddings, and elements that indices name.
#include <algorithm>
#include <charconv>
#include <string>

#include "kernels/lookups.h"
#include "kernels/runs.h"
#include "op_writer.h"

namespace meshwright::cuda {

Result<Shard> shard_of(const Node& node, const std::string& name, std::int64_t size) {
  std::vector<std::int64_t> atoms = node.integers(name + "_atoms"), extents = node.integers(name + "_extents"),
                            starts = node.integers(name + "_starts");
  if (atoms.empty() || atoms.size() != extents.size() || atoms.size() != starts.size()) {
    atoms = extents = {size};
    starts = {0};
  }
  if (atoms.size() > Shard::kMaxAtoms)
    return bad_input("kernels of cuda see dimensions of at most " + std::to_string(Shard::kMaxAtoms) + " atoms");
  Shard shard;
  shard.count = static_cast<std::int32_t>(atoms.size());
  std::ranges::copy(atoms, shard.atoms);
  std::ranges::copy(extents, shard.extents);
  std::ranges::copy(starts, shard.starts);
  return shard;
}

std::size_t named_dimension(std::string_view operand) {
  std::size_t dimension = 0;
  const std::string_view number = operand.substr(operand.find('.') + 1);
  std::from_chars(number.data(), number.data() + number.size(), dimension);
  return dimension;
}

namespace {

// Of embedding and of its backward: operand 0 has the rows, result 0 is the table, or the other way round.
Status write_look_up(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool backward = node.op == "aten.embedding_dense_backward";
  const Result<Seen> first = writer.in_rows(writer.operands[0]), indices = writer.in_rows(writer.operands[1]);
  if (!first) return first.error();
  if (!indices) return indices.error();
  const Seen &table = backward ? writer.results[0] : *first, &rows = backward ? *first : writer.results[0];
  const Result<View> table_view = view_for(table, {}), index_view = view_for(*indices, {}),
                     row_view = view_for(rows, {});
  const Result<Shard> shard = shard_of(node, "rows", table.type.shape[0]);
  if (!table_view) return table_view.error();
  if (!index_view) return index_view.error();
  if (!row_view) return row_view.error();
  if (!shard) return shard.error();
  LookupArguments arguments{indices->type.elements(),
                            table.type.shape.back(),
                            backward ? node.integer("padding_idx", -1) : -1,
                            *table_view,
                            *index_view,
                            *row_view,
                            *shard};
  if (!backward) {
    std::vector<Range> reads{table.range(), indices->range()}, writes{rows.range()};
    arguments.fault = writer.fault(reads, writes);
    writer.launch(KernelId::look_up, arguments, rows.type.elements(), std::move(reads), std::move(writes));
    return Done{};
  }
  if (Status status = fill_with(writer, 0, table); !status) return status;
  const Seen starts = row_starts(writer, arguments.positions);
  arguments.starts = reinterpret_cast<std::int64_t*>(starts.data);
  writer.launch(KernelId::look_up_starts, arguments, arguments.positions, {indices->range()}, {starts.range()});
  RunArguments runs;
  runs.columns = runs.column_sizes.of[0] = arguments.columns;
  runs.position_sizes.of[0] = arguments.positions;
  runs.position_sizes.rank = runs.column_sizes.rank = 1;
  runs.value_strides[0] = runs.table_strides[0] = 1;
  runs.values = *row_view;
  runs.values.strides[0] = arguments.columns;
  runs.table = *table_view;
  return put_rows(writer, runs, starts, {rows.range()}, table.range());
}

// A label as zeros and a one.
Status write_one_hot(OpWriter& writer) {
  const Seen& result = writer.results[0];
  const Result<Seen> labels = writer.in_rows(writer.operands[0]);
  if (!labels) return labels.error();
  LookupArguments arguments;
  const Result<View> label_view = view_for(*labels, {}), made = view_for(result, {});
  const Result<Shard> shard = shard_of(writer.call.node, "classes", result.type.shape.back());
  if (!label_view) return label_view.error();
  if (!made) return made.error();
  if (!shard) return shard.error();
  arguments.positions = labels->type.elements();
  arguments.columns = result.type.shape.back();
  arguments.indices = *label_view;
  arguments.rows = *made;
  arguments.shard = *shard;
  std::vector<Range> reads{labels->range()}, writes{result.range()};
  arguments.fault = writer.fault(reads, writes);
  writer.launch(KernelId::mark_label, arguments, result.type.elements(), std::move(reads), std::move(writes));
  return Done{};
}

void launch_pick(OpWriter& writer, PickArguments& arguments, std::vector<Range> reads) {
  const Seen& result = writer.results[0];
  std::vector<Range> writes{result.range()};
  arguments.fault = writer.fault(reads, writes);
  writer.launch(KernelId::pick, arguments, result.type.elements(), std::move(reads), std::move(writes));
}

// Along one dimension, by an index that has the result's dimensions.
Status pick_along(OpWriter& writer, const Seen& index) {
  const Seen &table = writer.operands[0], &result = writer.results[0];
  const std::int64_t rank = table.type.rank();
  const std::size_t dim = dimension_of(writer.call.node, rank);
  PickArguments arguments;
  const Result<Sizes> sizes = sizes_for(result.type.shape);
  const Result<View> view = view_for(table, table.strides), indices = view_for(index, index.strides),
                     made = view_for(result, {});
  if (!sizes) return sizes.error();
  if (!view) return view.error();
  if (!indices) return indices.error();
  if (!made) return made.error();
  arguments.sizes = *sizes;
  arguments.table_rank = static_cast<std::int32_t>(rank);
  arguments.table = *view;
  arguments.indices[0] = *indices;
  arguments.result = *made;
  for (std::int32_t d = 0; d < arguments.table_rank; ++d) {
    arguments.index_of[d] = static_cast<std::size_t>(d) == dim ? 0 : -1;
    arguments.dimension_of[d] = d;
    arguments.extents[d] = table.type.shape[static_cast<std::size_t>(d)];
  }
  launch_pick(writer, arguments, {table.range(), index.range()});
  return Done{};
}

// An index for each element of the result.
Status write_gather(OpWriter& writer) { return pick_along(writer, writer.operands[1]); }

// A list of positions, the same along all other dimensions.
Status write_index_select(OpWriter& writer) {
  const std::int64_t rank = writer.operands[0].type.rank();
  if (rank == 0) return bad_input("cuda has no kernel for " + writer.call.node.op + " of a number");
  const std::size_t dim = dimension_of(writer.call.node, rank);
  Seen index = *writer.operand("index");
  const std::int64_t step = index.strides.empty() ? 0 : index.strides[0];
  index.type.shape = writer.results[0].type.shape;
  index.strides.assign(index.type.shape.size(), 0);
  index.strides[dim] = step;
  return pick_along(writer, index);
}

// The dimensions of the indices stand in the place of those that they name, or in front if these are no neighbours.
Status write_pick(OpWriter& writer) {
  const Seen &table = writer.operands[0], &result = writer.results[0];
  const std::size_t indices = writer.operands.size() - 1, rank = table.type.shape.size();
  PickArguments arguments;
  if (indices > PickArguments::kMaxIndices || rank > kMaxRank)
    return bad_input("cuda has a kernel for at most " + std::to_string(PickArguments::kMaxIndices) + " indices into " +
                     std::to_string(kMaxRank) + " dimensions");
  const Result<Sizes> sizes = sizes_for(result.type.shape);
  const Result<View> view = view_for(table, table.strides), made = view_for(result, {});
  if (!sizes) return sizes.error();
  if (!view) return view.error();
  if (!made) return made.error();
  arguments.sizes = *sizes;
  arguments.table_rank = static_cast<std::int32_t>(rank);
  arguments.table = *view;
  arguments.result = *made;
  std::ranges::copy(table.type.shape, arguments.extents);
  std::ranges::fill(arguments.index_of, -1);
  bool neighbours = true;
  std::size_t first = 0, last = 0;
  for (std::size_t i = 0; i < indices; ++i) {
    const std::size_t named = named_dimension(writer.call.node.operands[i + 1].name);
    if (writer.operands[i + 1].type.dtype == DType::boolean)
      return bad_input("cuda has no kernel for masks as indices");
    arguments.index_of[named] = static_cast<std::int32_t>(i);
    neighbours = neighbours && (i == 0 || named == last + 1);
    if (i == 0) first = named;
    last = named;
  }
  const std::size_t own = result.type.shape.size() + indices - rank, front = neighbours ? first : 0;
  const auto begin = result.type.shape.begin() + static_cast<std::ptrdiff_t>(front);
  const std::vector<std::int64_t> of_indices(begin, begin + static_cast<std::ptrdiff_t>(own));
  std::vector<Range> reads{table.range()};
  for (std::size_t i = 0; i < indices; ++i) {
    const Seen& index = writer.operands[i + 1];
    std::vector<std::int64_t> strides(result.type.shape.size(), 0);
    std::ranges::copy(broadcast_strides(index, of_indices), strides.begin() + static_cast<std::ptrdiff_t>(front));
    const Result<View> named = view_for(index, strides);
    if (!named) return named.error();
    arguments.indices[i] = *named;
    reads.push_back(index.range());
  }
  std::size_t next = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (arguments.index_of[d] >= 0) continue;
    if (next == front) next += own;
    arguments.dimension_of[d] = static_cast<std::int32_t>(next++);
  }
  launch_pick(writer, arguments, std::move(reads));
  return Done{};
}

}  // namespace

WriteOp lookup_op(std::string_view op) {
  if (op == "aten.embedding" || op == "aten.embedding_dense_backward") return write_look_up;
  if (op == "aten.one_hot") return write_one_hot;
  if (op == "aten.gather") return write_gather;
  if (op == "aten.index_select") return write_index_select;
  return op == "aten.index.Tensor" ? write_pick : nullptr;
}

}  // namespace meshwright::cuda
