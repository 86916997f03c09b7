#include "grouped_writer.h"

namespace meshwright::cuda {

namespace {

// Rows of a tensor, of which each place is one, or each term.
TileFactor row_factor(const Seen& rows, bool is_turned) {
  TileFactor factor;
  factor.data = rows.data;
  factor.element = static_cast<Element>(rows.type.dtype);
  const std::int64_t width = rows.type.shape.back();
  (is_turned ? factor.places : factor.terms) = width;
  factor.place_stride = is_turned ? 1 : width;
  factor.term_stride = is_turned ? width : 1;
  return factor;
}

// Whether tensor cores find it in pieces: as long as what lies side by side, so that a piece is all inside or outside.
bool lies_in_pieces(const TileFactor& factor) {
  const bool is_turned = factor.place_stride == 1 && factor.term_stride != 1;
  const std::int64_t together = is_turned ? factor.places : factor.terms,
                     apart = is_turned ? factor.term_stride : factor.place_stride;
  return factor.element == Element::bfloat16 && together % kPiece == 0 && apart % kPiece == 0 &&
         alignment_of(factor.data) == sizeof(SixteenBytes);
}

TileWay way_of(const TileFactor& left, const TileFactor& right) {
  if (lies_in_pieces(left) && lies_in_pieces(right)) return TileWay::tensors;
  return is_single(left.element) && is_single(right.element) ? TileWay::floats : TileWay::plain;
}

}  // namespace

Status GroupedWriter::begin(const Seen& indices, const Shard& groups, std::int64_t count, bool may_be_nobodys) {
  const Result<View> view = view_for(indices, {});
  if (!view) return view.error();
  groups_.rows = indices.type.elements();
  groups_.count = count;
  groups_.tiles = most_tiles(groups_.rows, count);
  groups_.indices = *view;
  groups_.shard = groups;
  const std::int64_t sizes[] = {count + 1, count + 1, groups_.tiles, groups_.tiles * kTile};
  std::int64_t** const lists[] = {&groups_.sizes, &groups_.begins, &groups_.of_tiles, &groups_.order};
  std::int64_t numbers = 0;
  for (const std::int64_t size : sizes) numbers += size;
  const std::size_t bytes = static_cast<std::size_t>(numbers) * sizeof(std::int64_t);
  std::byte* const memory = writer_.scratch(bytes);
  lists_ = {memory, bytes};
  auto* next = reinterpret_cast<std::int64_t*>(memory);
  for (std::size_t i = 0; i < std::size(lists); ++i) {
    *lists[i] = next;
    next += sizes[i];
  }
  const Range sizes_range{memory, static_cast<std::size_t>(count + 1) * sizeof(std::int64_t)};
  const Range others{memory + sizes_range.bytes, bytes - sizes_range.bytes};
  GroupArguments arguments{groups_};
  std::vector<Range> reads{indices.range()}, writes{sizes_range};
  if (!may_be_nobodys) arguments.fault = writer_.fault(reads, writes);
  writer_.launch(KernelId::group_sizes, arguments, count + 1, std::move(reads), std::move(writes));
  writer_.launch(KernelId::group_order, arguments, count + 1, {indices.range(), sizes_range}, {others});
  return Done{};
}

Status GroupedWriter::multiply(const Seen& rows, const Seen& matrices, bool is_turned, const Seen* bias,
                               const Seen& result) {
  const std::vector<std::int64_t>& shape = matrices.type.shape;
  GroupedArguments arguments;
  arguments.left = row_factor(rows, false);
  arguments.right = row_factor(matrices, is_turned);
  (is_turned ? arguments.right.terms : arguments.right.places) = shape[1];
  arguments.group_stride = shape[1] * shape[2];
  std::vector<Range> reads{rows.range(), matrices.range()};
  if (bias != nullptr) {
    const Result<View> view = view_for(*bias, {});
    if (!view) return view.error();
    arguments.bias = *view;
    reads.push_back(bias->range());
  }
  return launch(is_turned ? KernelId::grouped_product_turned : KernelId::grouped_product, arguments, result,
                groups_.tiles * tiles_of(arguments.right.places), std::move(reads));
}

Status GroupedWriter::sum_products(const Seen& left, const Seen& right, const Seen& result) {
  GroupedArguments arguments;
  arguments.left = row_factor(left, true);
  arguments.right = row_factor(right, true);
  return launch(KernelId::grouped_gradient, arguments, result,
                groups_.count * tiles_of(arguments.left.places) * tiles_of(arguments.right.places),
                {left.range(), right.range()});
}

Status GroupedWriter::sum(const Seen& rows, const Seen& result) {
  GroupedArguments arguments;
  arguments.left = row_factor(rows, true);
  return launch(KernelId::grouped_sum, arguments, result, result.type.elements(), {rows.range()});
}

Status GroupedWriter::launch(KernelId kernel, GroupedArguments& arguments, const Seen& result, std::int64_t count,
                             std::vector<Range> reads) {
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  arguments.groups = groups_;
  arguments.way = way_of(arguments.left, arguments.right);
  arguments.result = *made;
  reads.push_back(lists_);
  writer_.launch(kernel, arguments, count, std::move(reads), {result.range()});
  return Done{};
}

}  // namespace meshwright::cuda
