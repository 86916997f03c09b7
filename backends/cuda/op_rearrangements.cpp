// Ops that read some elements in another order, and what brings gradients back to where they were read.
#include <algorithm>
#include <iterator>
#include <string>

#include "kernels/masks.h"
#include "kernels/reductions.h"
#include "kernels/windows.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// Of a tensor that is one matrix, or many: their diagonal, as the last dimension.
Seen diagonal_of(const Seen& whole, const Node& node, std::int64_t length) {
  const std::size_t row = dimension_of(node, whole.type.rank(), 0, "dim1"),
                    column = dimension_of(node, whole.type.rank(), 1, "dim2");
  const std::int64_t offset = node.integer("offset", 0);
  std::vector<std::int64_t> start(whole.strides.size(), 0);
  start[row] = std::max<std::int64_t>(-offset, 0);
  start[column] = std::max<std::int64_t>(offset, 0);
  const Seen from = part_of(whole, start, whole.type.shape);
  Seen made{{whole.type.dtype, {}}, from.data, {}};
  for (std::size_t d = 0; d < whole.strides.size(); ++d) {
    if (d == row || d == column) continue;
    made.type.shape.push_back(whole.type.shape[d]);
    made.strides.push_back(whole.strides[d]);
  }
  made.type.shape.push_back(length);
  made.strides.push_back(whole.strides[row] + whole.strides[column]);
  return made;
}

Status write_diagonal_gradient(OpWriter& writer) {
  const Seen &gradient = writer.operands[0], &result = writer.results[0];
  if (Status status = fill_with(writer, 0, result); !status) return status;
  return writer.copy(gradient, diagonal_of(result, writer.call.node, gradient.type.shape.back()));
}

// (c r s) h w as c (h r) (w s), or the other way round: both as c h r w s.
Status write_pixel_shuffle(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &from = writer.operands[0], &result = writer.results[0];
  const bool back = node.op == "aten.pixel_unshuffle";
  const std::int64_t block = node.integer(back ? "downscale_factor" : "upscale_factor", 1);
  const Seen &deep = back ? result : from, &wide = back ? from : result;
  const std::size_t leading = deep.type.shape.size() - 3;
  const auto begins_alike = [&](const Seen& tensor) {
    return Seen{
        {tensor.type.dtype, {deep.type.shape.begin(), deep.type.shape.begin() + static_cast<std::ptrdiff_t>(leading)}},
        tensor.data,
        {tensor.strides.begin(), tensor.strides.begin() + static_cast<std::ptrdiff_t>(leading)}};
  };
  Seen blocks = begins_alike(deep), space = begins_alike(wide);
  const std::int64_t height = deep.type.shape[leading + 1], width = deep.type.shape[leading + 2];
  const std::int64_t *of_deep = &deep.strides[leading], *of_wide = &wide.strides[leading];
  for (Seen* each : {&blocks, &space})
    each->type.shape.insert(each->type.shape.end(), {wide.type.shape[leading], height, block, width, block});
  blocks.strides.insert(blocks.strides.end(),
                        {of_deep[0] * block * block, of_deep[1], of_deep[0] * block, of_deep[2], of_deep[0]});
  space.strides.insert(space.strides.end(),
                       {of_wide[0], of_wide[1] * block, of_wide[1], of_wide[2] * block, of_wide[2]});
  return back ? writer.copy(space, blocks) : writer.copy(blocks, space);
}

Status write_broadcast(OpWriter& writer) {
  for (std::size_t i = 0; i < writer.results.size(); ++i) {
    const Seen &from = writer.operands[i], &result = writer.results[i];
    const Seen spread{{from.type.dtype, result.type.shape}, from.data, broadcast_strides(from, result.type.shape)};
    if (Status status = writer.copy(spread, result); !status) return status;
  }
  return Done{};
}

// Of windows that slide along a dimension.
Status write_sliding_gradient(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Seen &gradient = writer.operands[0], &result = writer.results[0];
  if (result.type.rank() == 0) return bad_input("cuda has no kernel for " + node.op + " of a number");
  SlidingArguments a;
  const Result<Sizes> sizes = sizes_for(result.type.shape);
  const Result<View> to = view_for(result, {}),
                     from = view_for(gradient, std::span(gradient.strides).first(gradient.strides.size() - 1));
  if (!sizes) return sizes.error();
  if (!to) return to.error();
  if (!from) return from.error();
  a.sizes = *sizes;
  a.dim = static_cast<std::int32_t>(dimension_of(node, result.type.rank()));
  a.length = gradient.type.shape.back();
  a.step = node.integer("step", 1);
  a.count = gradient.type.shape[static_cast<std::size_t>(a.dim)];
  a.within_stride = gradient.strides.back();
  a.from = *from;
  a.result = *to;
  writer.launch(KernelId::sliding_gradient, a, result.type.elements(), {gradient.range()}, {result.range()});
  return Done{};
}

// Of images as columns, and of columns as images.
Status write_columns(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool back = node.op == "aten.col2im";
  const Result<Seen> from = writer.in_rows(writer.operands[0]);
  if (!from) return from.error();
  const Seen& result = writer.results[0];
  const std::vector<std::int64_t>& image = (back ? result : *from).type.shape;
  ColumnArguments a;
  const auto read = [&](const char* name, std::int64_t otherwise, std::int64_t(&pair)[2]) {
    const std::vector<std::int64_t> given = node.integers(name);
    for (std::size_t d = 0; d < 2; ++d) pair[d] = given.empty() ? otherwise : given[std::min(d, given.size() - 1)];
  };
  read("kernel_size", 1, a.kernel);
  read("dilation", 1, a.dilation);
  read("padding", 0, a.padding);
  read("stride", 1, a.stride);
  for (std::size_t d = 0; d < 2; ++d) {
    a.size[d] = image[image.size() - 2 + d];
    a.places[d] = (a.size[d] + 2 * a.padding[d] - a.dilation[d] * (a.kernel[d] - 1) - 1) / a.stride[d] + 1;
  }
  const Result<View> source = view_for(*from, {}), to = view_for(result, {});
  if (!source) return source.error();
  if (!to) return to.error();
  a.from = *source;
  a.result = *to;
  writer.launch(back ? KernelId::column_image : KernelId::image_columns, a, result.type.elements(), {from->range()},
                {result.range()});
  return Done{};
}

// Tiles of the mask are counted, the counts summed up, and then each tile knows where its elements come from, or go to.
Status write_under_count(OpWriter& writer) {
  const bool back = writer.call.node.op == "meshwright.masked_scatter_backward";
  const Seen &self = writer.operands[0], &mask = *writer.operand("mask"), &result = writer.results[0];
  MaskArguments a;
  const std::vector<std::int64_t>& shape = self.type.shape;
  const Walk walk = walk_over(shape, {self.strides, broadcast_strides(mask, shape)});
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  const Result<View> from = view_for(self, walk.strides[0]), masked = view_for(mask, walk.strides[1]),
                     to = view_for(result, {});
  if (!sizes) return sizes.error();
  if (!from) return from.error();
  if (!masked) return masked.error();
  if (!to) return to.error();
  a.sizes = *sizes;
  a.elements = self.type.elements();
  a.gathers = back;
  a.self = *from;
  a.mask = *masked;
  a.result = *to;
  a.sources = result.type.elements();
  std::vector<Range> reads{self.range(), mask.range()}, writes{result.range()};
  if (back) {
    if (Status status = fill_with(writer, 0, result); !status) return status;
  } else {
    const Result<Seen> source = writer.in_rows(*writer.operand("source"));
    if (!source) return source.error();
    const Result<View> taken = view_for(*source, {});
    if (!taken) return taken.error();
    a.source = *taken;
    a.sources = source->type.elements();
    reads.push_back(source->range());
    a.fault = writer.fault(reads, writes);
  }
  const std::int64_t tiles = (a.elements + kMaskTile - 1) / kMaskTile;
  const TensorType numbers{DType::int64, {tiles}};
  const auto in_scratch = [&] { return writer.in_scratch(numbers); };
  const Seen counts = in_scratch(), ends = in_scratch();
  a.counts = reinterpret_cast<std::int64_t*>(counts.data);
  a.ends = reinterpret_cast<std::int64_t*>(ends.data);
  writer.launch(KernelId::mask_counts, a, tiles, {mask.range()}, {counts.range()});
  const Result<View> each = view_for(counts, {}), summed = view_for(ends, {});
  if (!each) return each.error();
  if (!summed) return summed.error();
  writer.launch(KernelId::running_sum_of_long, RunningSumArguments{{}, true, tiles, 1, 1, *each, *summed}, tiles > 0,
                {counts.range()}, {ends.range()});
  reads.push_back(ends.range());
  writer.launch(KernelId::mask_scatter, a, tiles, std::move(reads), std::move(writes));
  return Done{};
}

struct Rearrangement {
  std::string_view op;
  WriteOp write;
};

constexpr Rearrangement kRearrangements[] = {{"aten.diagonal_backward", write_diagonal_gradient},
                                             {"aten.pixel_shuffle", write_pixel_shuffle},
                                             {"aten.pixel_unshuffle", write_pixel_shuffle},
                                             {"aten.broadcast_tensors", write_broadcast},
                                             {"aten.unfold_backward", write_sliding_gradient},
                                             {"aten.im2col", write_columns},
                                             {"aten.col2im", write_columns},
                                             {"aten.masked_scatter", write_under_count},
                                             {"meshwright.masked_scatter_backward", write_under_count}};

}  // namespace

WriteOp rearrangement_op(std::string_view op) {
  const auto* found = std::ranges::find(kRearrangements, op, &Rearrangement::op);
  return found == std::end(kRearrangements) ? nullptr : found->write;
}

}  // namespace meshwright::cuda
