// Elements picked by position, or put at positions.
#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_gather(Scope& scope) {
  const TensorType data = scope.type(0), indices = scope.type(1);
  const std::size_t axis = scope.axis(scope.integer("axis", 0), data.rank());
  TensorType type{data.dtype, {data.shape.begin(), data.shape.begin() + static_cast<std::ptrdiff_t>(axis)}};
  type.shape.insert(type.shape.end(), indices.shape.begin(), indices.shape.end());
  type.shape.insert(type.shape.end(), data.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.shape.end());
  const auto dim = static_cast<std::int64_t>(axis);
  if (const auto position = scope.scalar(1); position && indices.shape.empty()) {
    const auto index = static_cast<std::int64_t>(*position);
    if (index < -data.shape[axis] || index >= data.shape[axis])
      scope.refuse("its index " + std::to_string(index) + " is outside of the dimension that it picks from");
    return scope.bind(
        0, scope.emit("aten.select.int", {{"self", scope.value(0)}}, {{"dim", dim}, {"index", index}}, type));
  }
  if (axis == 0 && data.rank() == 2 && is_floating(data.dtype)) {
    return scope.bind(
        0, scope.emit("aten.embedding", {{"weight", scope.value(0)}, {"indices", scope.value(1)}}, {}, type));
  }
  scope.bind(0, scope.emit("aten.index.Tensor",
                           {{"self", scope.value(0)}, {"indices." + std::to_string(axis), scope.value(1)}}, {}, type));
}

void translate_gather_elements(Scope& scope) {
  const auto dim = static_cast<std::int64_t>(scope.axis(scope.integer("axis", 0), scope.type(0).rank()));
  if (scope.shape(1).size() != scope.shape(0).size())
    scope.refuse("its indices must have as many dimensions as its operand");
  scope.bind(0,
             scope.emit("aten.gather", {{"self", scope.value(0)}, {"index", scope.cast(scope.value(1), DType::int64)}},
                        {{"dim", dim}}, {scope.type(0).dtype, scope.shape(1)}));
}

// The columns of indices [..., k], one for each of the first k dimensions that are indexed.
std::vector<Operand> columns(Scope& scope, std::size_t operand) {
  const TensorType indices = scope.type(operand);
  if (indices.shape.empty()) scope.refuse("its indices have no dimensions");
  TensorType column = indices;
  column.shape.pop_back();
  const auto last = static_cast<std::int64_t>(indices.shape.size()) - 1;
  std::vector<Operand> operands;
  for (std::int64_t i = 0; i < indices.shape.back(); ++i) {
    operands.push_back({"indices." + std::to_string(i), scope.emit("aten.select.int", {{"self", scope.value(operand)}},
                                                                   {{"dim", last}, {"index", i}}, column)});
  }
  return operands;
}

void translate_gather_nd(Scope& scope) {
  const Shape data = scope.shape(0), indices = scope.shape(1);
  if (scope.integer("batch_dims", 0) != 0) scope.refuse("batch_dims are not supported");
  if (indices.empty() || indices.back() > static_cast<std::int64_t>(data.size()))
    scope.refuse("its indices have more columns than its operand has dimensions");
  TensorType type{scope.type(0).dtype, {indices.begin(), indices.end() - 1}};
  type.shape.insert(type.shape.end(), data.begin() + indices.back(), data.end());
  std::vector<Operand> operands = columns(scope, 1);
  operands.insert(operands.begin(), {"self", scope.value(0)});
  scope.bind(0, scope.emit("aten.index.Tensor", operands, {}, type));
}

void translate_scatter_nd(Scope& scope) {
  const std::string reduction = scope.text("reduction", "none");
  if (reduction != "none" && reduction != "add") scope.refuse("its reduction '" + reduction + "' is not supported");
  std::vector<Operand> operands = columns(scope, 1);
  operands.insert(operands.begin(), {"self", scope.value(0)});
  operands.push_back({"values", scope.value(2)});
  scope.bind(0, scope.emit("aten.index_put", operands, {{"accumulate", reduction == "add"}}, scope.type(0)));
}

void translate_scatter_elements(Scope& scope) {
  const std::string reduction = scope.text("reduction", "none");
  if (reduction != "none" && reduction != "add") scope.refuse("its reduction '" + reduction + "' is not supported");
  const auto dim = static_cast<std::int64_t>(scope.axis(scope.integer("axis", 0), scope.type(0).rank()));
  scope.bind(
      0, scope.emit(
             reduction == "add" ? "aten.scatter_add" : "aten.scatter.src",
             {{"self", scope.value(0)}, {"index", scope.cast(scope.value(1), DType::int64)}, {"src", scope.value(2)}},
             {{"dim", dim}}, scope.type(0)));
}

void translate_topk(Scope& scope) {
  const TensorType from = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", -1), from.rank());
  const std::vector<std::int64_t> count = scope.known_integers(1);
  if (count.size() != 1 || count[0] < 0 || count[0] > from.shape[axis])
    scope.refuse("its k must be one number, at most the size of the dimension that it picks from");
  TensorType type = from;
  type.shape[axis] = count[0];
  const std::vector<ValueId> results = scope.emit("aten.topk", {{"self", scope.value(0)}},
                                                  {{"k", count[0]},
                                                   {"dim", static_cast<std::int64_t>(axis)},
                                                   {"largest", scope.integer("largest", 1) != 0},
                                                   {"sorted", scope.integer("sorted", 1) != 0}},
                                                  {type, TensorType{DType::int64, type.shape}});
  scope.bind(0, results[0]);
  scope.bind(1, results[1]);
}

void translate_cumsum(Scope& scope) {
  const std::vector<std::int64_t> at = scope.known_integers(1);
  if (at.size() != 1) scope.refuse("its axis must be one number");
  if (scope.integer("exclusive", 0) != 0) scope.refuse("an exclusive running sum is not supported");
  const auto dim = static_cast<std::int64_t>(scope.axis(at[0], scope.type(0).rank()));
  const bool reverse = scope.integer("reverse", 0) != 0;
  const auto flip = [&](ValueId value) {
    return scope.emit("aten.flip", {{"self", value}}, {{"dims", std::vector<std::int64_t>{dim}}}, scope.type_of(value));
  };
  ValueId value = reverse ? flip(scope.value(0)) : scope.value(0);
  value = scope.emit("aten.cumsum", {{"self", value}}, {{"dim", dim}}, scope.type(0));
  scope.bind(0, reverse ? flip(value) : value);
}

void translate_trilu(Scope& scope) {
  const std::vector<std::int64_t> diagonal = scope.has(1) ? scope.known_integers(1) : std::vector<std::int64_t>{0};
  if (diagonal.size() != 1) scope.refuse("its k must be one number");
  scope.bind(0, scope.emit(scope.integer("upper", 1) != 0 ? "aten.triu" : "aten.tril", {{"self", scope.value(0)}},
                           {{"diagonal", diagonal[0]}}, scope.type(0)));
}

void refuse_data_dependent(Scope& scope) {
  scope.refuse(
      "the shape of its result depends on the data; every shape must be a fixed number, so export the model without "
      "it");
}

}  // namespace

void add_indexing(Translations& all) {
  all["Gather"] = translate_gather;
  all["GatherElements"] = translate_gather_elements;
  all["GatherND"] = translate_gather_nd;
  all["ScatterND"] = translate_scatter_nd;
  all["ScatterElements"] = translate_scatter_elements;
  all["TopK"] = translate_topk;
  all["CumSum"] = translate_cumsum;
  all["Trilu"] = translate_trilu;
  for (const char* op : {"NonZero", "Compress", "Unique", "NonMaxSuppression"}) all[op] = refuse_data_dependent;
}

}  // namespace meshwright::onnx
