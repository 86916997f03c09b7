// Borders around a tensor: of a constant, or of what is inside; and the gradient of what they are put around.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/borders.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kBorderGradient = "meshwright.pad_backward";

// Nothing: a constant stands there.
Result<std::optional<Border>> border_of(const Node& node) {
  if (node.op.starts_with("aten.reflection_pad")) return std::optional(Border::reflect);
  if (node.op.starts_with("aten.replication_pad")) return std::optional(Border::replicate);
  const std::string mode = node.text("mode", "constant");
  if (mode == "constant") return std::optional<Border>();
  if (mode == "reflect") return std::optional(Border::reflect);
  if (mode == "replicate") return std::optional(Border::replicate);
  if (mode == "circular") return std::optional(Border::circular);
  return bad_input("cuda has no kernel for borders of the mode " + mode);
}

// Pairs, from the last dimension on: before it and behind it. A negative width takes some away.
std::vector<std::int64_t> widths_of(const Node& node) {
  return node.integers(node.attributes.contains("padding") ? "padding" : "pad");
}

// Where the inside lies in what has no border, and in what has one.
struct Inside {
  std::vector<std::int64_t> shape, narrow, wide;
};
Inside inside_of(const Node& node, const TensorType& narrow) {
  Inside inside{narrow.shape, std::vector<std::int64_t>(narrow.shape.size(), 0),
                std::vector<std::int64_t>(narrow.shape.size(), 0)};
  const std::vector<std::int64_t> widths = widths_of(node);
  for (std::size_t i = 0; i + 1 < widths.size(); i += 2) {
    const std::size_t d = inside.shape.size() - 1 - i / 2;
    inside.narrow[d] = std::max<std::int64_t>(0, -widths[i]);
    inside.wide[d] = std::max<std::int64_t>(0, widths[i]);
    inside.shape[d] -= inside.narrow[d] + std::max<std::int64_t>(0, -widths[i + 1]);
  }
  return inside;
}

// Along one dimension after the other.
Status write_repeated(OpWriter& writer, Border border) {
  const Node& node = writer.call.node;
  const Seen& result = writer.results[0];
  const std::vector<std::int64_t> widths = widths_of(node);
  Result<Seen> from = writer.in_rows(writer.operands[0]);
  if (!from) return from.error();
  const std::size_t rank = result.type.shape.size();
  for (std::size_t i = 0; i + 1 < widths.size(); i += 2) {
    const std::size_t d = rank - 1 - i / 2;
    BorderArguments a;
    a.border = border;
    a.transposed = node.op == kBorderGradient;
    a.before = widths[i];
    a.size = (a.transposed ? result : *from).type.shape[d];
    a.padded = (a.transposed ? *from : result).type.shape[d];
    for (std::int64_t position = 0; position < a.padded; ++position) {
      const std::int64_t source = border_source(a, position);
      if (source < 0 || source >= a.size)
        return bad_input("the border of a dimension of " + std::to_string(a.size) + " is wider than what it repeats");
    }
    if (Status status = writer.launch_along(KernelId::repeat_border, a, d, i + 3 >= widths.size(), *from); !status)
      return status;
  }
  return widths.empty() ? writer.copy(*from, result) : Status(Done{});
}

Status write_border(OpWriter& writer) {
  const Node& node = writer.call.node;
  const Result<std::optional<Border>> border = border_of(node);
  if (!border) return border.error();
  if (*border) return write_repeated(writer, **border);
  const bool backward = node.op == kBorderGradient;
  const Seen &from = writer.operands[0], &result = writer.results[0];
  const Inside inside = inside_of(node, backward ? result.type : from.type);
  if (Status status = fill_with(writer, backward ? 0 : node.number("value", 0), result); !status) return status;
  return writer.copy(part_of(from, backward ? inside.wide : inside.narrow, inside.shape),
                     part_of(result, backward ? inside.narrow : inside.wide, inside.shape));
}

}  // namespace

WriteOp border_op(std::string_view op) {
  const bool is_one = op == "aten.pad" || op == "aten.constant_pad_nd" || op == kBorderGradient ||
                      op.starts_with("aten.reflection_pad") || op.starts_with("aten.replication_pad");
  return is_one ? write_border : nullptr;
}

}  // namespace meshwright::cuda
