#include "op_writer.h"

#include "kernels/movement.h"

namespace meshwright::cuda {

std::byte* OpWriter::workspace(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  if (bytes == 0) return nullptr;
  std::byte* memory = scratch(bytes + kAlignment - 1);
  return memory + (kAlignment - reinterpret_cast<std::uintptr_t>(memory) % kAlignment) % kAlignment;
}

Result<Seen> OpWriter::in_rows(const Seen& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Seen made = seen_at(scratch(static_cast<std::size_t>(tensor.type.bytes())), tensor.type);
  if (Status status = copy(tensor, made); !status) return status.error();
  return made;
}

Status OpWriter::view_in_rows(std::span<const std::pair<const char*, View*>> named, std::vector<Range>& reads) {
  for (const auto& [name, view] : named) {
    const Seen* tensor = operand(name);
    if (tensor == nullptr) continue;
    const Result<Seen> rows = in_rows(*tensor);
    if (!rows) return rows.error();
    const Result<View> made = view_for(*rows, {});
    if (!made) return made.error();
    *view = *made;
    reads.push_back(rows->range());
  }
  return Done{};
}

Status OpWriter::copy(const Seen& from, const Seen& to) {
  const Walk walk = walk_over(to.type.shape, {from.strides, to.strides});
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  if (!sizes) return sizes.error();
  const Result<View> source = view_for(from, walk.strides[0]), target = view_for(to, walk.strides[1]);
  if (!source) return source.error();
  if (!target) return target.error();
  launch(KernelId::copy, CopyArguments{*sizes, *source, *target}, to.type.elements(), {from.range()}, {to.range()});
  return Done{};
}

WriteOp find_op(std::string_view op) {
  for (const auto find :
       {pointwise_op, movement_op, product_op, reduction_op, norm_op, lookup_op, loss_op, attention_op, convolution_op,
        batch_norm_op, pooling_op, dropout_op, softmax_op, group_norm_op, selection_op, put_op, expert_op}) {
    if (const WriteOp found = find(op)) return found;
  }
  return nullptr;
}

}  // namespace meshwright::cuda
