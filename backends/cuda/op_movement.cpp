// Ops that only move elements.
#include <algorithm>
#include <optional>

#include "op_writer.h"

namespace meshwright::cuda {

namespace {

// Views that are copied, since what they see changes while they are needed.
Status write_views(OpWriter& writer) {
  Seen source = writer.operands[0];
  for (std::size_t i = 0; i < writer.results.size(); ++i) {
    Result<std::optional<Seen>> seen = view_of(source, writer.call, i, writer.ops);
    if (!seen) return seen.error();
    if (!*seen) {
      Result<Seen> rows = writer.in_rows(source);
      if (!rows) return rows.error();
      source = std::move(*rows);
      seen = view_of(source, writer.call, i, writer.ops);
      if (!seen) return seen.error();
      if (!*seen) return internal_error(writer.call.node.op + " is no view of its operand");
    }
    if (Status status = writer.copy(**seen, writer.results[i]); !status) return status;
  }
  return Done{};
}

Status write_join(OpWriter& writer) {
  const Seen& result = writer.results[0];
  const std::int64_t rank = result.type.rank(), named = writer.call.node.integer("dim", 0);
  const auto dim = static_cast<std::size_t>(named < 0 ? named + rank : named);
  std::int64_t at = 0;
  for (const Seen& operand : writer.operands) {
    if (operand.type.rank() != rank) continue;  // an empty one
    const Seen part{{result.type.dtype, operand.type.shape}, result.data + static_cast<std::size_t>(at * result.strides[dim]) * result.element_bytes(), result.strides};
    if (Status status = writer.copy(operand, part); !status) return status;
    at += operand.type.shape[dim];
  }
  return Done{};
}

constexpr std::string_view kViews[] = {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.permute", "aten.transpose.int", "aten.t", "aten.expand", "aten.slice.Tensor", "aten.select.int", "aten.unsqueeze",
                                       "aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims", "aten.split.Tensor", "aten.split_with_sizes", "aten.chunk", "aten.unbind.int", "aten.detach"};

}  // namespace

WriteOp movement_op(std::string_view op) {
  if (std::ranges::find(kViews, op) != std::end(kViews)) return write_views;
  return op == "aten.cat" ? write_join : nullptr;
}

}  // namespace meshwright::cuda
