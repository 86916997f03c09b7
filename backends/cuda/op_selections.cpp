// Maxima, minima and their positions; any and all; sorting, and the largest few.
#include <algorithm>
#include <string>

#include "dimensions.h"
#include "kernels/selections.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::int64_t kShortOrder = 256;  // elements of a line that are counted rather than sorted
// Lines that blocks go over, rather than warps.
constexpr std::int64_t kLongLineSelected = 1024, kManyLinesSelected = 4096;

bool sorts(const Node& node) {
  return node.op == "aten.topk" || node.op.starts_with("aten.sort") || node.op.starts_with("aten.argsort");
}

std::vector<bool> compared_dimensions(const Node& node, std::int64_t rank) {
  std::vector<std::int64_t> dims = list_of(node, "dim");
  if (dims.empty() && sorts(node)) dims = {-1};
  // any and all, alone among the ops that reduce, take an empty list for no dimension.
  if (node.op.ends_with(".dims") && node.attributes.contains("dim")) return named_dimensions(dims, rank);
  return named_or_all_dimensions(dims, rank);
}

// Where results of lines stand: strides of the dimensions that are not compared along.
std::vector<std::int64_t> line_strides(const Seen& result, const std::vector<bool>& compared) {
  const bool keeps = result.strides.size() == compared.size();
  std::vector<std::int64_t> strides;
  std::size_t next = 0;
  for (const bool is_along : compared) {
    if (!is_along) strides.push_back(result.strides[next]);
    if (keeps || !is_along) ++next;
  }
  return strides;
}

Status write_selection(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen& from = writer.operands[0];
  const std::vector<bool> compared = compared_dimensions(node, from.type.rank());
  std::vector<std::int64_t> lines, along, line_steps, along_steps;
  std::int64_t along_stride = 1;
  std::size_t dim = 0;
  SelectArguments a;
  a.count = 1;
  for (std::size_t d = 0; d < compared.size(); ++d) {
    (compared[d] ? along : lines).push_back(from.type.shape[d]);
    (compared[d] ? along_steps : line_steps).push_back(from.strides[d]);
    if (!compared[d]) continue;
    a.count *= from.type.shape[d];
    dim = d;
  }
  if (a.count == 0) return bad_input("cuda has no kernel for " + node.op + " of nothing");
  const bool positions_alone = node.op.starts_with("aten.arg");
  const Seen* values = positions_alone ? nullptr : &writer.results[0];
  const Seen* positions = positions_alone             ? &writer.results[0]
                          : writer.results.size() > 1 ? &writer.results[1]
                                                      : nullptr;
  const Result<Sizes> line_sizes = sizes_for(lines), along_sizes = sizes_for(along);
  const Result<View> view = view_for(from, line_steps);
  if (!line_sizes) return line_sizes.error();
  if (!along_sizes) return along_sizes.error();
  if (!view) return view.error();
  a.lines = *line_sizes;
  a.along = *along_sizes;
  a.from = *view;
  std::ranges::copy(along_steps, a.along_strides);
  a.logical = node.op.starts_with("aten.any") || node.op.starts_with("aten.all");
  std::vector<Range> writes;
  const bool has_dim = !along.empty();
  for (const Seen* result : {values, positions}) {
    if (result == nullptr) continue;
    const Result<View> made = view_for(*result, line_strides(*result, compared));
    if (!made) return made.error();
    along_stride = sorts(node) && has_dim ? result->strides[dim] : 0;
    (result == values ? a.values : a.positions) = *made;
    (result == values ? a.value_stride : a.position_stride) = along_stride;
    writes.push_back(result->range());
  }
  const std::int64_t count = from.type.elements() / a.count;
  if (!sorts(node)) {
    a.smallest = node.op.find("min") != std::string::npos || node.op.starts_with("aten.all");
    const bool is_long = a.count >= kLongLineSelected && a.count < kLastPosition && count < kManyLinesSelected;
    writer.launch(is_long ? KernelId::select_extreme_of_long : KernelId::select_extreme, a, count, {from.range()},
                  std::move(writes));
    return Done{};
  }
  a.smallest = node.op == "aten.topk" ? !node.boolean("largest", true) : !node.boolean("descending", false);
  a.kept = has_dim ? writer.results[0].type.shape[dim] : 1;
  if (a.kept > a.count) return bad_input("more elements are picked than there are");
  return write_order(writer, a, count, from.range(), writes);
}

constexpr std::string_view kSelections[] = {
    "aten.argmax", "aten.argmin",  "aten.max.dim",  "aten.min.dim",     "aten.amin",    "aten.max",
    "aten.min",    "aten.topk",    "aten.sort",     "aten.sort.stable", "aten.argsort", "aten.argsort.stable",
    "aten.any",    "aten.any.dim", "aten.any.dims", "aten.all",         "aten.all.dim", "aten.all.dims"};

}  // namespace

// Of long lines: tiles are sorted, and merged two by two.
Status write_order(OpWriter& writer, const SelectArguments& a, std::int64_t lines, const Range& from,
                   const std::vector<Range>& results) {
  if (a.count >= kLastPosition) return bad_input("cuda sorts no more than 2147483646 elements at a time");
  if (a.count <= kShortOrder) {
    writer.launch(KernelId::select_order, a, lines * a.count, {from}, results);
    return Done{};
  }
  if (lines == 0 || a.kept == 0) return Done{};
  OrderArguments order;
  order.select = a;
  order.tiles = (a.count + kSortTile - 1) / kSortTile;
  order.width = std::min<std::int64_t>(a.kept, kSortTile);
  const std::int64_t places = order.tiles * order.width;
  const std::size_t bytes = static_cast<std::size_t>(lines * places) *
                            (is_single(a.from.element) ? sizeof(LineItem<float>) : sizeof(LineItem<double>));
  // A pass reads what the one before it wrote. The first one reads the operand, the last one writes the results.
  const auto runs = [&](bool are_needed) { return Range{are_needed ? writer.scratch(bytes) : nullptr, bytes}; };
  Range written = runs(order.tiles > 1), read = runs(order.tiles > 2);
  const auto launch = [&](KernelId kernel, std::int64_t count, const Range& reads, bool is_last) {
    order.to = is_last ? nullptr : const_cast<std::byte*>(written.begin);
    writer.launch(kernel, order, count, {reads}, is_last ? results : std::vector{written});
  };
  launch(KernelId::sort_tiles, lines * order.tiles, from, order.tiles == 1);
  for (; order.run < order.tiles; order.run *= 2) {
    std::swap(written, read);
    order.from = read.begin;
    launch(KernelId::merge_runs, lines * places, read, 2 * order.run >= order.tiles);
  }
  return Done{};
}

WriteOp selection_op(std::string_view op) {
  return std::ranges::find(kSelections, op) != std::end(kSelections) ? write_selection : nullptr;
}

}  // namespace meshwright::cuda
