// Sums, means, maxima and running sums.
#include <algorithm>

#include "dimensions.h"
#include "kernels/reductions.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// What blocks reduce, rather than warps: a GPU has room for some thousand warps at a time.
constexpr std::int64_t kLongRow = 512, kManyRows = 4096;
// Elements of a chunk, at least, and how many chunks there are in all, about.
constexpr std::int64_t kRowChunk = 4096, kChunks = 1024;
// What blocks sum up, rather than threads.
constexpr std::int64_t kLongLine = 512, kManyLines = 65536;

// The dimensions of `tensor` that are chosen: their sizes and strides.
struct Dimensions {
  std::vector<std::int64_t> sizes, strides;
};

Dimensions choose(const Seen& tensor, const std::vector<bool>& named, bool which) {
  Dimensions chosen;
  for (std::size_t d = 0; d < named.size(); ++d) {
    if (named[d] != which) continue;
    chosen.sizes.push_back(tensor.type.shape[d]);
    chosen.strides.push_back(tensor.strides[d]);
  }
  return chosen;
}

// Columns that follow each other, over rows at a stride.
Status write_column_sums(OpWriter& writer, const Walk& rows, double divisor) {
  const Seen &from = writer.operands[0], &result = writer.results[0];
  ColumnSumArguments arguments;
  arguments.rows = rows.sizes[0];
  arguments.row_stride = rows.strides[0][0];
  arguments.columns = result.type.elements();
  const Seen chunks = chunk_sums(writer, from.type.dtype, arguments.rows, arguments.columns);
  const Result<View> source = view_for(from, {}), sums = view_for(chunks, {});
  if (!source) return source.error();
  if (!sums) return sums.error();
  arguments.from = *source;
  arguments.sums = *sums;
  writer.launch(KernelId::column_sums, arguments, chunks.type.elements(), {from.range()}, {chunks.range()});
  return sum_chunks(writer, chunks, divisor, result);
}

Status write_reduction(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &from = writer.operands[0], &result = writer.results[0];
  const std::vector<bool> reduces = named_or_all_dimensions(list_of(node, "dim"), from.type.rank());
  const Dimensions kept = choose(from, reduces, false), reduced = choose(from, reduces, true);
  const Walk over_kept = walk_over(kept.sizes, {kept.strides}),
             over_reduced = walk_over(reduced.sizes, {reduced.strides});
  const Result<Sizes> kept_sizes = sizes_for(over_kept.sizes), reduced_sizes = sizes_for(over_reduced.sizes);
  const Result<View> source = view_for(from, over_kept.strides[0]), target = view_for(result, {});
  if (!kept_sizes) return kept_sizes.error();
  if (!reduced_sizes) return reduced_sizes.error();
  if (!source) return source.error();
  if (!target) return target.error();
  ReduceArguments arguments;
  arguments.kept = *kept_sizes;
  arguments.reduced = *reduced_sizes;
  for (const std::int64_t size : reduced.sizes) arguments.count *= size;
  if (node.op.starts_with("aten.mean")) arguments.divisor = static_cast<double>(arguments.count);
  arguments.maximum = node.op == "aten.amax";
  arguments.truncates = !is_floating(result.type.dtype);
  const bool has_columns = over_kept.sizes.size() == 1 && over_kept.strides[0][0] == 1 &&
                           over_reduced.sizes.size() == 1 && over_reduced.strides[0][0] != 1;
  if (has_columns && !arguments.maximum && is_floating(from.type.dtype) && !arguments.truncates)
    return write_column_sums(writer, over_reduced, arguments.divisor);
  arguments.from = *source;
  std::ranges::copy(over_reduced.strides[0], arguments.reduced_strides);
  arguments.result = *target;
  reduce_rows(writer, arguments, result.type.elements(), from.range(), result.range());
  return Done{};
}

Status write_running_sum(OpWriter& writer) {
  const Seen &from = writer.operands[0], &result = writer.results[0];
  if (from.type.rank() == 0) return writer.copy(from, result);
  const std::size_t dim = dimension_of(writer.call.node, from.type.rank());
  std::vector<bool> is_line(from.type.shape.size(), false);
  is_line[dim] = true;
  const Dimensions lines = choose(from, is_line, false), made = choose(result, is_line, false);
  const Walk walk = walk_over(lines.sizes, {lines.strides, made.strides});
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  const Result<View> source = view_for(from, walk.strides[0]), target = view_for(result, walk.strides[1]);
  if (!sizes) return sizes.error();
  if (!source) return source.error();
  if (!target) return target.error();
  const RunningSumArguments arguments{
      *sizes, !is_floating(result.type.dtype), from.type.shape[dim], from.strides[dim], result.strides[dim], *source,
      *target};
  const std::int64_t extent = from.type.shape[dim], count = from.type.elements() / std::max<std::int64_t>(1, extent);
  const bool is_long = extent >= kLongLine && count < kManyLines;
  writer.launch(is_long ? KernelId::running_sum_of_long : KernelId::running_sum, arguments, count, {from.range()},
                {result.range()});
  return Done{};
}

}  // namespace

void reduce_rows(OpWriter& writer, const ReduceArguments& arguments, std::int64_t rows, const Range& from,
                 const Range& result) {
  if (arguments.count < kLongRow || rows >= kManyRows)
    return writer.launch(KernelId::reduce, arguments, rows, {from}, {result});
  ReduceArguments of_chunks = arguments;
  of_chunks.chunk = std::max(kRowChunk, (arguments.count * rows + kChunks - 1) / kChunks);
  of_chunks.chunks = (arguments.count + of_chunks.chunk - 1) / of_chunks.chunk;
  if (of_chunks.chunks == 1) return writer.launch(KernelId::reduce_chunks, of_chunks, rows, {from}, {result});
  const Seen chunks = writer.in_scratch(DType::float64, {rows, of_chunks.chunks});
  ReduceArguments of_rows;
  of_rows.kept.rank = of_rows.reduced.rank = 1;
  of_rows.kept.of[0] = rows;
  of_rows.reduced.of[0] = of_rows.count = of_chunks.chunks;
  of_rows.reduced_strides[0] = 1;
  of_rows.divisor = arguments.divisor;
  of_rows.maximum = arguments.maximum;
  of_rows.from.data = chunks.data;
  of_rows.from.element = Element::float64;
  of_rows.from.strides[0] = of_chunks.chunks;
  of_rows.result = arguments.result;
  of_chunks.divisor = 1;
  of_chunks.result = of_rows.from;
  writer.launch(KernelId::reduce_chunks, of_chunks, chunks.type.elements(), {from}, {chunks.range()});
  reduce_rows(writer, of_rows, rows, chunks.range(), result);
}

Seen chunk_sums(OpWriter& writer, DType type, std::int64_t rows, std::int64_t columns) {
  const bool is_double = size_bytes(type) > size_bytes(DType::float32);
  return writer.in_scratch(is_double ? DType::float64 : DType::float32,
                           {(rows + ColumnSumArguments::kChunk - 1) / ColumnSumArguments::kChunk, columns});
}

Status sum_chunks(OpWriter& writer, const Seen& chunks, double divisor, const Seen& result) {
  ReduceArguments sum;
  sum.kept.rank = sum.reduced.rank = 1;
  sum.kept.of[0] = chunks.type.shape[1];
  sum.reduced.of[0] = sum.count = chunks.type.shape[0];
  sum.reduced_strides[0] = chunks.strides[0];
  sum.divisor = divisor;
  const Result<View> from = view_for(chunks, {{1}}), made = view_for(result, {});
  if (!from) return from.error();
  if (!made) return made.error();
  sum.from = *from;
  sum.result = *made;
  reduce_rows(writer, sum, result.type.elements(), chunks.range(), result.range());
  return Done{};
}

WriteOp reduction_op(std::string_view op) {
  if (op == "aten.sum" || op == "aten.sum.dim_IntList" || op == "aten.mean" || op == "aten.mean.dim" ||
      op == "aten.amax")
    return write_reduction;
  return op == "aten.cumsum" ? write_running_sum : nullptr;
}

}  // namespace meshwright::cuda
