// Other ways to look at the same elements.
#include <algorithm>
#include <numeric>

#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_reshape(Scope& scope) {
  const std::vector<std::int64_t> wanted = scope.known_integers(1);
  const auto shape = reshaped(scope.shape(0), wanted, scope.integer("allowzero", 0) != 0);
  if (!shape)
    scope.refuse("a " + to_string(scope.type(0)) + " can't be reshaped to " +
                 to_string(TensorType{DType::int64, wanted}).substr(5));
  scope.bind(0, scope.view(scope.value(0), *shape));
}

void translate_flatten(Scope& scope) {
  const Shape& shape = scope.shape(0);
  std::int64_t axis = scope.integer("axis", 1);
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) scope.refuse("its axis is outside of its operand's dimensions");
  const std::int64_t rows = product({shape.begin(), shape.begin() + axis}),
                     columns = product({shape.begin() + axis, shape.end()});
  scope.bind(0, scope.view(scope.value(0), {rows, columns}));
}

void translate_transpose(Scope& scope) {
  std::vector<std::int64_t> order = scope.integers("perm");
  const auto rank = scope.shape(0).size();
  if (order.empty()) {
    order.resize(rank);
    std::iota(order.rbegin(), order.rend(), 0);
  }
  std::vector<std::int64_t> sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i) || sorted.size() != rank)
      scope.refuse("its perm is no order of its operand's dimensions");
  }
  scope.bind(0, scope.permute(scope.value(0), order));
}

void translate_squeeze(Scope& scope) {
  const Shape& shape = scope.shape(0);
  std::vector<std::size_t> axes;
  if (const auto listed = scope.list("axes", 1)) {
    for (const std::int64_t axis : *listed) axes.push_back(scope.axis(axis, static_cast<std::int64_t>(shape.size())));
  } else {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) axes.push_back(i);
    }
  }
  for (const std::size_t axis : axes) {
    if (shape[axis] != 1)
      scope.refuse("its dimension " + std::to_string(axis) + " has " + std::to_string(shape[axis]) +
                   " elements, and only one of 1 can be left out");
  }
  scope.bind(0, scope.view(scope.value(0), reduced(shape, axes, false)));
}

void translate_unsqueeze(Scope& scope) {
  std::vector<std::int64_t> axes = scope.list("axes", 1).value_or(std::vector<std::int64_t>{});
  const std::int64_t rank = scope.type(0).rank() + static_cast<std::int64_t>(axes.size());
  for (std::int64_t& axis : axes) axis = static_cast<std::int64_t>(scope.axis(axis, rank));
  std::ranges::sort(axes);
  ValueId value = scope.value(0);
  for (const std::int64_t axis : axes) {
    TensorType type = scope.type_of(value);
    if (axis > type.rank()) scope.refuse("its axes name a dimension twice");
    type.shape.insert(type.shape.begin() + axis, 1);
    value = scope.emit("aten.unsqueeze", {{"self", value}}, {{"dim", axis}}, type);
  }
  scope.bind(0, value);
}

void translate_expand(Scope& scope) {
  const Shape shape = scope.broadcast(scope.shape(0), scope.known_integers(1));
  if (shape == scope.shape(0)) return scope.bind(0, scope.value(0));
  scope.bind(0, scope.emit("aten.expand", {{"self", scope.value(0)}}, {{"size", shape}}, {scope.type(0).dtype, shape}));
}

void translate_tile(Scope& scope) {
  const std::vector<std::int64_t> repeats = scope.known_integers(1);
  TensorType type = scope.type(0);
  if (repeats.size() != type.shape.size()) scope.refuse("it must say how often each dimension is repeated");
  for (std::size_t i = 0; i < repeats.size(); ++i) type.shape[i] *= repeats[i];
  if (type.shape == scope.shape(0)) return scope.bind(0, scope.value(0));
  scope.bind(0, scope.emit("aten.repeat", {{"self", scope.value(0)}}, {{"repeats", repeats}}, type));
}

// Channels to space and back: a view, an order, a view.
void translate_blocks(Scope& scope) {
  const Shape shape = scope.shape(0);
  const std::int64_t block = scope.integer("blocksize", 0);
  if (shape.size() != 4 || block < 1) scope.refuse("it needs 4 dimensions and a block size");
  const std::int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const bool to_space = scope.node.op == "DepthToSpace";
  if (to_space ? c % (block * block) != 0 : h % block != 0 || w % block != 0)
    scope.refuse("its operand's sizes are no multiples of the block");
  ValueId value = scope.value(0);
  if (!to_space) {
    value = scope.permute(scope.view(value, {n, c, h / block, block, w / block, block}), {0, 3, 5, 1, 2, 4});
    return scope.bind(0, scope.view(value, {n, c * block * block, h / block, w / block}));
  }
  const std::int64_t rest = c / (block * block);
  const bool columns_first = scope.text("mode", "DCR") == "CRD";
  value = columns_first ? scope.permute(scope.view(value, {n, rest, block, block, h, w}), {0, 1, 4, 2, 5, 3})
                        : scope.permute(scope.view(value, {n, block, block, rest, h, w}), {0, 3, 4, 1, 5, 2});
  scope.bind(0, scope.view(value, {n, rest, h * block, w * block}));
}

}  // namespace

void add_views(Translations& all) {
  all["Reshape"] = translate_reshape;
  all["Flatten"] = translate_flatten;
  all["Transpose"] = translate_transpose;
  all["Squeeze"] = translate_squeeze;
  all["Unsqueeze"] = translate_unsqueeze;
  all["Expand"] = translate_expand;
  all["Tile"] = translate_tile;
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) all[op] = translate_blocks;
}

}  // namespace meshwright::onnx
