// Interpolation of images, along one dimension after the other, and its gradient.
#include <string>
#include <utility>

#include "kernels/resampling.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kResamplingGradient = "meshwright.upsample_backward";

struct Resampling {
  Interpolation interpolation = Interpolation::nearest;
  bool antialias = false;
  std::size_t space = 2;  // dimensions that it is along: the last ones
};

// As the family reads it (plugins/ops/upsample/resample.cpp), from a name like "aten.upsample_bilinear2d.vec".
Resampling resampling_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  return {has("nearest_exact") ? Interpolation::nearest_exact
          : has("nearest")     ? Interpolation::nearest
          : has("cubic")       ? Interpolation::cubic
                               : Interpolation::linear,
          has("2d_aa"),
          has("1d")   ? 1U
          : has("3d") ? 3U
                      : 2U};
}

// How much larger the call says that the output is along a dimension of space; 0: it says nothing.
double scale_along(const Node& node, const Resampling& resampling, std::size_t d) {
  const auto list = node.attributes.find("scale_factors");
  if (list != node.attributes.end()) {
    if (const auto* reals = std::get_if<std::vector<double>>(&list->second)) return d < reals->size() ? (*reals)[d] : 0;
    const std::vector<std::int64_t> whole = node.integers("scale_factors");
    return d < whole.size() ? static_cast<double>(whole[d]) : 0;
  }
  constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  return node.number(resampling.space == 1 ? "scales" : kNames[3 - resampling.space + d], 0);
}

double step_of(const ResampleArguments& a, double scale) {
  const bool aligns = a.align_corners && a.interpolation > Interpolation::nearest_exact;
  if (!aligns) return scale > 0 ? 1 / scale : static_cast<double>(a.input) / static_cast<double>(a.output);
  return a.output > 1 ? static_cast<double>(a.input - 1) / static_cast<double>(a.output - 1) : 0;
}

// In doubles between dimensions, as the family computes it.
Status write_resampling(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool backward = node.op == kResamplingGradient;
  const Resampling resampling = resampling_of(backward ? node.text("mode", "") : node.op);
  const Seen& result = writer.results[0];
  Result<Seen> from = writer.in_rows(writer.operands[0]);
  if (!from) return from.error();
  for (std::size_t d = 0; d < resampling.space; ++d) {
    const std::size_t at = result.type.shape.size() - resampling.space + d;
    ResampleArguments a;
    a.interpolation = resampling.interpolation;
    a.antialias = resampling.antialias;
    a.align_corners = node.boolean("align_corners", false);
    a.transposed = backward;
    a.input = (backward ? result : *from).type.shape[at];
    a.output = (backward ? *from : result).type.shape[at];
    a.step = step_of(a, scale_along(node, resampling, d));
    if (Status status = writer.launch_along(KernelId::resample, a, at, d + 1 == resampling.space, *from); !status)
      return status;
  }
  return Done{};
}

}  // namespace

WriteOp resampling_op(std::string_view op) {
  const bool is_one =
      op == kResamplingGradient || op.starts_with("aten.upsample_") || op.starts_with("aten._upsample_");
  return is_one ? write_resampling : nullptr;
}

}  // namespace meshwright::cuda
