// Maxima and means over windows, adaptive ones too, forward and backward.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/pooling.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

bool is_backward(const Node& node) { return node.op.ends_with("_backward"); }

// "aten.max_pool2d"; our own backward says it by an attribute.
std::size_t pooled_dimensions(const Node& node) {
  const std::size_t at = node.op.find("pool");
  const char digit = is_backward(node) || at + 4 >= node.op.size() ? '0' : node.op[at + 4];
  return digit > '0' && digit < '4' ? static_cast<std::size_t>(digit - '0')
                                    : static_cast<std::size_t>(node.integer("space", 2));
}

// All but views.
Result<PoolArguments> describe(const Node& node, const TensorType& wide, const TensorType& narrow) {
  const std::size_t space = pooled_dimensions(node), rank = wide.shape.size();
  if (space > kSpace || rank < space || narrow.shape.size() != rank || narrow.elements() == 0)
    return bad_input("cuda has no kernel for pooling of " + to_string(wide) + " to " + to_string(narrow));
  PoolArguments a;
  for (std::size_t d = 0; d < kSpace; ++d) a.x[d] = a.y[d] = a.kernel[d] = a.stride[d] = a.dilation[d] = 1;
  const auto at_or = [](const std::vector<std::int64_t>& list, std::size_t d, std::int64_t otherwise) {
    return list.empty() ? otherwise : list.size() == 1 ? list[0] : list[d];
  };
  a.adaptive = node.op.find("adaptive") != std::string::npos || node.boolean("adaptive", false);
  a.counts_padding = node.boolean("count_include_pad", true);
  a.divisor = node.number("divisor_override", 0);
  for (std::size_t d = 0; d < space; ++d) {
    const std::size_t own = kSpace - space + d;
    a.x[own] = wide.shape[rank - space + d];
    a.y[own] = narrow.shape[rank - space + d];
    if (a.adaptive) continue;
    a.kernel[own] = at_or(node.integers("kernel_size"), d, 1);
    a.stride[own] = at_or(node.integers("stride"), d, a.kernel[own]);
    a.padding[own] = at_or(node.integers("padding"), d, 0);
    a.dilation[own] = at_or(node.integers("dilation"), d, 1);
    for (std::int64_t y = 0; y < a.y[own]; ++y) {
      const PoolWindow window = window_of(a, static_cast<int>(own), y);
      if (window.first >= window.last) return bad_input("a window lies in the padding alone");
    }
  }
  return a;
}

Status write_pool(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool backward = is_backward(node), maximum = node.op.find("max_pool") != std::string::npos;
  std::vector<Seen> rows;
  for (const Seen& operand : writer.operands) {
    Result<Seen> made = writer.in_rows(operand);
    if (!made) return made.error();
    rows.push_back(std::move(*made));
  }
  const Seen &wide = backward ? writer.results[0] : rows[0], &narrow = backward ? rows[0] : writer.results[0];
  Result<PoolArguments> a = describe(node, wide.type, narrow.type);
  const Result<View> wide_view = view_for(wide, {}), narrow_view = view_for(narrow, {});
  if (!a) return a.error();
  if (!wide_view) return wide_view.error();
  if (!narrow_view) return narrow_view.error();
  a->wide = *wide_view;
  a->narrow = *narrow_view;
  if (!backward) {
    std::vector<Range> writes{narrow.range()};
    if (writer.results.size() > 1) {
      const Result<View> indices = view_for(writer.results[1], {});
      if (!indices) return indices.error();
      a->indices = *indices;
      writes.push_back(writer.results[1].range());
    }
    writer.launch(maximum ? KernelId::pool_maximum : KernelId::pool_mean, *a, narrow.type.elements(), {wide.range()},
                  std::move(writes));
    return Done{};
  }
  if (!maximum) {
    writer.launch(KernelId::pool_mean_gradient, *a, wide.type.elements(), {narrow.range()}, {wide.range()});
    return Done{};
  }
  // Our own backward searches for the maxima again.
  const auto given = node.operand_index("indices");
  const Seen indices = given ? rows[*given] : writer.in_scratch(DType::int64, narrow.type.shape);
  const Result<View> view = view_for(indices, {});
  if (!view) return view.error();
  a->indices = *view;
  a->looks_everywhere = given.has_value();
  if (!given) {
    const Seen& self = rows[1];
    const Result<View> searched = view_for(self, {});
    if (!searched) return searched.error();
    PoolArguments search = *a;
    search.wide = *searched;
    search.narrow = {};
    writer.launch(KernelId::pool_maximum, search, narrow.type.elements(), {self.range()}, {indices.range()});
  }
  writer.launch(KernelId::pool_maximum_gradient, *a, wide.type.elements(), {narrow.range(), indices.range()},
                {wide.range()});
  return Done{};
}

constexpr std::string_view kPools[] = {"aten.max_pool1d",
                                       "aten.max_pool2d",
                                       "aten.max_pool3d",
                                       "aten.max_pool2d_with_indices",
                                       "aten.max_pool3d_with_indices",
                                       "aten.avg_pool1d",
                                       "aten.avg_pool2d",
                                       "aten.avg_pool3d",
                                       "aten.adaptive_max_pool1d",
                                       "aten.adaptive_max_pool2d",
                                       "aten.adaptive_max_pool3d",
                                       "aten.adaptive_avg_pool1d",
                                       "aten.adaptive_avg_pool2d",
                                       "aten.adaptive_avg_pool3d",
                                       "aten._adaptive_avg_pool2d",
                                       "aten._adaptive_avg_pool3d",
                                       "aten.avg_pool2d_backward",
                                       "aten._adaptive_avg_pool2d_backward",
                                       "aten.max_pool2d_with_indices_backward",
                                       "meshwright.max_pool_backward",
                                       "meshwright.avg_pool_backward"};

}  // namespace

WriteOp pooling_op(std::string_view op) {
  return std::ranges::find(kPools, op) != std::end(kPools) ? write_pool : nullptr;
}

}  // namespace meshwright::cuda
