#include "op_writer.h"

#include "kernels/movement.h"

namespace meshwright::cuda {

std::byte* workspace_in(const std::function<std::byte*(std::size_t)>& scratch, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  if (bytes == 0) return nullptr;
  std::byte* memory = scratch(bytes + kAlignment - 1);
  return memory + (kAlignment - reinterpret_cast<std::uintptr_t>(memory) % kAlignment) % kAlignment;
}

Result<Seen> OpWriter::in_rows(const Seen& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Seen made = in_scratch(tensor.type);
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

namespace {

// What lies together in both tensors is copied in pieces of 16 bytes, if it begins, ends and repeats at them; else
// element by element. `walk` becomes one over the pieces.
std::int32_t cut_into_pieces(const Seen& from, const Seen& to, Walk& walk) {
  constexpr std::int64_t kPiece = sizeof(SixteenBytes);
  const auto bytes = static_cast<std::int64_t>(from.element_bytes()), together = kPiece / bytes;
  if (from.type.dtype != to.type.dtype) return 0;
  const auto begins_there = [](const Seen& seen) { return reinterpret_cast<std::uintptr_t>(seen.data) % kPiece == 0; };
  bool fits = begins_there(from) && begins_there(to) && !walk.sizes.empty() && walk.sizes.back() % together == 0;
  for (const std::vector<std::int64_t>& strides : walk.strides) {
    for (std::size_t d = 0; d < strides.size() && fits; ++d)
      fits = d + 1 == strides.size() ? strides[d] == 1 : strides[d] % together == 0;
  }
  if (!fits) return static_cast<std::int32_t>(bytes);
  walk.sizes.back() /= together;
  for (std::vector<std::int64_t>& strides : walk.strides) {
    for (std::size_t d = 0; d + 1 < strides.size(); ++d) strides[d] /= together;
  }
  return kPiece;
}

}  // namespace

std::int32_t* OpWriter::fault(std::vector<Range>& reads, std::vector<Range>& writes) {
  if (fault_word == nullptr) return nullptr;
  may_fault = true;
  const Range word{reinterpret_cast<const std::byte*>(fault_word), sizeof *fault_word};
  reads.push_back(word);
  writes.push_back(word);
  return fault_word;
}

Status OpWriter::copy(const Seen& from, const Seen& to) {
  Result<Launch> launch = launch_of_copy(from, to);
  if (!launch) return launch.error();
  if (launch->count > 0) add(std::move(*launch));
  return Done{};
}

Result<Launch> OpWriter::launch_of_copy(const Seen& from, const Seen& to) {
  Walk walk = walk_over(to.type.shape, {from.strides, to.strides});
  const std::int32_t bytes = cut_into_pieces(from, to, walk);
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  if (!sizes) return sizes.error();
  const Result<View> source = view_for(from, walk.strides[0]), target = view_for(to, walk.strides[1]);
  if (!source) return source.error();
  if (!target) return target.error();
  std::int64_t pieces = 1;
  for (const std::int64_t size : walk.sizes) pieces *= size;
  return launch_of(KernelId::copy, CopyArguments{*sizes, *source, *target, bytes}, pieces, {from.range()},
                   {to.range()});
}

Result<std::optional<DnnCall>> planned_call(const OpWriter& writer, std::optional<DnnGraph> graph) {
  if (!graph) return std::optional<DnnCall>();
  const Result<std::optional<std::size_t>> bytes = writer.plan_dnn(*graph);
  if (!bytes) return bytes.error();
  if (!*bytes) return std::optional<DnnCall>();
  DnnCall call;
  call.graph = std::make_shared<const DnnGraph>(std::move(*graph));
  call.workspace_bytes = **bytes;
  return std::optional(std::move(call));
}

WriteOp find_op(std::string_view op) {
  for (const auto find : {attention_op,
                          bag_op,
                          batch_norm_op,
                          border_op,
                          convolution_op,
                          distance_op,
                          draw_op,
                          dropout_op,
                          einsum_op,
                          elementwise_loss_op,
                          expert_exchange_op,
                          expert_op,
                          group_norm_op,
                          likelihood_op,
                          lookup_op,
                          loss_op,
                          movement_op,
                          norm_op,
                          pointwise_op,
                          pooling_op,
                          product_op,
                          put_op,
                          rearrangement_op,
                          recurrent_op,
                          reduction_op,
                          resampling_op,
                          sampling_op,
                          selection_op,
                          softmax_op,
                          statistic_op}) {
    if (const WriteOp found = find(op)) return found;
  }
  return nullptr;
}

}  // namespace meshwright::cuda
