// Pools, and images made larger or smaller.
#include <algorithm>
#include <cmath>
#include <limits>

#include "windows.h"

namespace meshwright::onnx {

namespace {

TensorType pooled(Scope& scope, const Windows& windows) {
  TensorType type{scope.type(0).dtype, {scope.shape(0)[0], scope.shape(0)[1]}};
  type.shape.insert(type.shape.end(), windows.space.begin(), windows.space.end());
  return type;
}

void translate_pool(Scope& scope) {
  const bool maximum = scope.node.op == "MaxPool";
  const bool round_up = scope.integer("ceil_mode", 0) != 0;
  if (scope.wants(1)) scope.refuse("the places of its maxima are used as a result, which is not supported");
  Windows windows = windows_of(scope, {}, round_up);
  const TensorType type = pooled(scope, windows);
  if (type.rank() > 5) scope.refuse("more than 3 dimensions of space are not supported");
  const bool counts_pads = scope.integer("count_include_pad", 0) != 0;
  ValueId value = scope.value(0);
  if (!windows.symmetric()) {
    if (!maximum && !counts_pads)
      scope.refuse("different pads before and behind that do not count in a mean are not supported");
    value = padded(scope, value, windows, maximum ? -std::numeric_limits<double>::infinity() : 0.0);
  }
  const bool pads = std::ranges::any_of(windows.before, [](std::int64_t pad) { return pad != 0; });
  const bool dilated = std::ranges::any_of(windows.dilations, [](std::int64_t dilation) { return dilation != 1; });
  Attributes attributes = {{"kernel_size", windows.kernel}, {"stride", windows.strides}};
  if (pads) attributes["padding"] = windows.before;
  if (dilated && !maximum) scope.refuse("a mean over windows with gaps (dilations) is not supported");
  if (dilated) attributes["dilation"] = windows.dilations;
  if (round_up) attributes["ceil_mode"] = true;
  if (!maximum && pads && !counts_pads) attributes["count_include_pad"] = false;
  scope.bind(0, scope.emit(std::string(maximum ? "aten.max_pool" : "aten.avg_pool") +
                               std::to_string(windows.space.size()) + "d",
                           {{"self", value}}, attributes, type));
}

void translate_global_pool(Scope& scope) {
  const Shape shape = scope.shape(0);
  if (shape.size() < 3) scope.refuse("its operand has no dimensions of space");
  const std::size_t space = shape.size() - 2;
  TensorType type{scope.type(0).dtype, Shape(shape.size(), 1)};
  type.shape[0] = shape[0];
  type.shape[1] = shape[1];
  if (scope.node.op == "GlobalMaxPool" || space > 3) {
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < space; ++i) dims.push_back(static_cast<std::int64_t>(i) + 2);
    return scope.bind(0, scope.emit(scope.node.op == "GlobalMaxPool" ? "aten.amax" : "aten.mean.dim",
                                    {{"self", scope.value(0)}}, {{"dim", dims}, {"keepdim", true}}, type));
  }
  scope.bind(0, scope.emit("aten.adaptive_avg_pool" + std::to_string(space) + "d", {{"self", scope.value(0)}},
                           {{"output_size", std::vector<std::int64_t>(space, 1)}}, type));
}

void translate_resize(Scope& scope) {
  const TensorType from = scope.type(0);
  TensorType type = from;
  std::vector<double> scales(from.shape.size(), 1);
  if (scope.has_attribute("axes") || scope.shape(0).size() < 3)
    scope.refuse("a resize of listed axes, or of fewer than 3 dimensions, is not supported");
  if (scope.has(3)) {
    const std::vector<std::int64_t> sizes = scope.known_integers(3);
    if (sizes.size() != from.shape.size()) scope.refuse("its sizes do not go with its operand's dimensions");
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      type.shape[i] = sizes[i];
      scales[i] = static_cast<double>(sizes[i]) / static_cast<double>(std::max<std::int64_t>(from.shape[i], 1));
    }
  } else {
    const Literal* known = scope.setting(2);
    if (known == nullptr || known->reals.size() != from.shape.size())
      scope.refuse("its scales must be constants, one for each dimension");
    for (std::size_t i = 0; i < scales.size(); ++i) {
      scales[i] = known->reals[i];
      type.shape[i] = whole_number(static_cast<double>(from.shape[i]) * scales[i]);
    }
  }
  if (type.shape[0] != from.shape[0] || type.shape[1] != from.shape[1])
    scope.refuse("batch and channels can't be resized");
  const std::string mode = scope.text("mode", "nearest"),
                    position = scope.text("coordinate_transformation_mode", "half_pixel");
  const std::string space = std::to_string(from.shape.size() - 2);
  const bool aligned = position == "align_corners";
  Attributes attributes = {{"output_size", Shape(type.shape.begin() + 2, type.shape.end())}};
  std::string name;
  if (mode == "nearest") {
    const bool as_pytorch = position == "asymmetric" && scope.text("nearest_mode", "round_prefer_floor") == "floor";
    const bool whole = std::ranges::all_of(
        scales, [](double scale) { return scale == std::trunc(scale); });
    if (!as_pytorch && !whole) scope.refuse("nearest neighbours with the mode '" + position + "' are not supported");
    name = "aten.upsample_nearest" + space + "d.vec";
  } else {
    if (position != "half_pixel" && position != "pytorch_half_pixel" && !aligned)
      scope.refuse("the coordinates '" + position + "' are not supported");
    if (mode == "linear")
      name = std::string("aten.upsample_") +
             (space == "1"   ? "linear"
              : space == "2" ? "bilinear"
                             : "trilinear") +
             (space == "2" ? "2d" : space + "d") + ".vec";
    else if (mode == "cubic" && space == "2")
      name = "aten.upsample_bicubic2d.vec";
    else
      scope.refuse("its mode '" + mode + "' is not supported");
    attributes["align_corners"] = aligned;
  }
  scope.bind(0, scope.emit(name, {{"input", scope.value(0)}}, attributes, type));
}

}  // namespace

void add_pooling(Translations& all) {
  for (const char* op : {"MaxPool", "AveragePool"}) all[op] = translate_pool;
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) all[op] = translate_global_pool;
  all["Resize"] = translate_resize;
}

}  // namespace meshwright::onnx
