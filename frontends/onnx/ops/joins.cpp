// Tensors cut in pieces, joined, and padded.
#include <algorithm>
#include <limits>

#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_concat(Scope& scope) {
  TensorType type = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", 0), type.rank());
  if (scope.node.inputs.size() == 1) return scope.bind(0, scope.value(0));
  std::vector<Operand> operands;
  type.shape[axis] = 0;
  for (std::size_t i = 0; i < scope.node.inputs.size(); ++i) {
    const Shape& shape = scope.shape(i);
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      if (shape.size() != type.shape.size() || (d != axis && shape[d] != type.shape[d]))
        scope.refuse("its operands differ in other dimensions than the joined one");
    }
    type.shape[axis] += shape[axis];
    operands.push_back({"tensors." + std::to_string(i), scope.value(i)});
  }
  scope.bind(0, scope.emit("aten.cat", operands, {{"dim", static_cast<std::int64_t>(axis)}}, type));
}

void translate_split(Scope& scope) {
  const TensorType type = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", 0), type.rank());
  const auto outputs = static_cast<std::int64_t>(scope.node.outputs.size());
  const std::int64_t size = type.shape[axis];
  std::vector<std::int64_t> sizes = scope.list("split", 1).value_or(std::vector<std::int64_t>{});
  if (sizes.empty()) {
    const std::int64_t count = scope.integer("num_outputs", outputs),
                       piece = (size + count - 1) / std::max<std::int64_t>(count, 1);
    for (std::int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<std::int64_t>(size - i * piece, 0, piece));
  }
  std::int64_t all = 0;
  std::vector<TensorType> types;
  for (const std::int64_t piece : sizes) {
    types.push_back(type);
    types.back().shape[axis] = piece;
    all += piece;
  }
  if (all != size || static_cast<std::int64_t>(sizes.size()) != outputs)
    scope.refuse("its pieces do not add up to the " + std::to_string(size) + " that it cuts");
  const bool even =
      std::ranges::all_of(sizes.begin(), sizes.end() - 1, [&](std::int64_t piece) { return piece == sizes[0]; }) &&
      sizes.back() <= sizes[0] && sizes[0] > 0;
  const auto dim = static_cast<std::int64_t>(axis);
  const std::vector<ValueId> pieces = even ? scope.emit("aten.split.Tensor", {{"self", scope.value(0)}},
                                                        {{"split_size", sizes[0]}, {"dim", dim}}, types)
                                           : scope.emit("aten.split_with_sizes", {{"self", scope.value(0)}},
                                                        {{"split_sizes", sizes}, {"dim", dim}}, types);
  for (std::size_t i = 0; i < pieces.size(); ++i) scope.bind(i, pieces[i]);
}

void translate_slice(Scope& scope) {
  const std::vector<std::int64_t> starts = scope.known_integers(1), ends = scope.known_integers(2);
  const std::vector<std::int64_t> axes = scope.has(3) ? scope.known_integers(3) : std::vector<std::int64_t>{};
  const std::vector<std::int64_t> steps =
      scope.has(4) ? scope.known_integers(4) : std::vector<std::int64_t>(starts.size(), 1);
  if (ends.size() != starts.size() || steps.size() != starts.size() || (scope.has(3) && axes.size() != starts.size())) {
    scope.refuse("its starts, ends, axes and steps are not equally many");
  }
  ValueId value = scope.value(0);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    TensorType type = scope.type_of(value);
    const std::size_t axis = scope.axis(scope.has(3) ? axes[i] : static_cast<std::int64_t>(i), type.rank());
    if (steps[i] == 0) scope.refuse("its step is 0");
    const SliceRange range = slice_range(starts[i], ends[i], steps[i], type.shape[axis]);
    const auto dim = static_cast<std::int64_t>(axis);
    if (range.step < 0) {
      if (range.step != -1 || range.count != type.shape[axis])
        scope.refuse("a slice backwards is supported where it turns a whole dimension round");
      value = scope.emit("aten.flip", {{"self", value}}, {{"dims", std::vector<std::int64_t>{dim}}}, type);
      continue;
    }
    if (range.count == type.shape[axis]) continue;
    type.shape[axis] = range.count;
    Attributes attributes = {{"dim", dim},
                             {"start", range.start},
                             {"end", range.start + (range.count == 0 ? 0 : (range.count - 1) * range.step + 1)}};
    if (range.step != 1) attributes["step"] = range.step;
    value = scope.emit("aten.slice.Tensor", {{"self", value}}, attributes, type);
  }
  scope.bind(0, value);
}

void translate_pad(Scope& scope) {
  TensorType type = scope.type(0);
  const std::vector<std::int64_t> pads = scope.known_integers(1);
  std::vector<std::size_t> axes;
  if (scope.has(3)) {
    for (const std::int64_t axis : scope.known_integers(3)) axes.push_back(scope.axis(axis, type.rank()));
  } else {
    for (std::size_t i = 0; i < type.shape.size(); ++i) axes.push_back(i);
  }
  if (pads.size() != 2 * axes.size()) scope.refuse("its pads do not go with the dimensions that it pads");
  std::vector<std::int64_t> widths(2 * type.shape.size(), 0);  // the last dimension first, before and behind
  std::size_t outermost = type.shape.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t before = pads[i], behind = pads[i + axes.size()];
    type.shape[axes[i]] += before + behind;
    const std::size_t at = 2 * (type.shape.size() - 1 - axes[i]);
    widths[at] = before;
    widths[at + 1] = behind;
    if (before != 0 || behind != 0) outermost = std::min(outermost, axes[i]);
  }
  widths.resize(2 * (type.shape.size() - outermost));
  if (widths.empty()) return scope.bind(0, scope.value(0));
  const std::string mode = scope.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge")
    scope.refuse("its mode '" + mode + "' is not supported");
  Attributes attributes = {{"pad", widths}};
  if (mode != "constant") {
    attributes["mode"] = std::string(mode == "edge" ? "replicate" : mode);
    return scope.bind(0, scope.emit("aten.pad", {{"self", scope.value(0)}}, attributes, type));
  }
  const std::optional<double> filling = scope.has(2) ? scope.scalar(2) : std::optional(0.0);
  if (!filling) scope.refuse("what it fills with must be a constant");
  attributes["value"] = is_floating(type.dtype) ? Attribute(*filling) : Attribute(whole_number(*filling));
  scope.bind(0, scope.emit("aten.constant_pad_nd", {{"self", scope.value(0)}}, attributes, type));
}

}  // namespace

void add_joins(Translations& all) {
  all["Concat"] = translate_concat;
  all["Split"] = translate_split;
  all["Slice"] = translate_slice;
  all["Pad"] = translate_pad;
}

}  // namespace meshwright::onnx
