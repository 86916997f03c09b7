// Sums, means, extrema and the like over dimensions.
#include "../scope.h"

namespace meshwright::onnx {

namespace {

struct Reduction {
  std::vector<std::size_t> axes;
  std::vector<std::int64_t> dims;
  bool keep = true;
  TensorType type;
};

Reduction reduction_of(Scope& scope) {
  Reduction reduction;
  const std::int64_t rank = scope.type(0).rank();
  const std::vector<std::int64_t> axes = scope.list("axes", 1).value_or(std::vector<std::int64_t>{});
  for (const std::int64_t axis : axes) reduction.axes.push_back(scope.axis(axis, rank));
  if (axes.empty() && scope.integer("noop_with_empty_axes", 0) == 0) {
    for (std::int64_t i = 0; i < rank; ++i) reduction.axes.push_back(static_cast<std::size_t>(i));
  }
  for (const std::size_t axis : reduction.axes) reduction.dims.push_back(static_cast<std::int64_t>(axis));
  reduction.keep = scope.integer("keepdims", 1) != 0;
  reduction.type = {scope.type(0).dtype, reduced(scope.shape(0), reduction.axes, reduction.keep)};
  return reduction;
}

ValueId reduce(Scope& scope, const std::string& op, ValueId value, const Reduction& reduction) {
  return scope.emit(op, {{"self", value}}, {{"dim", reduction.dims}, {"keepdim", reduction.keep}}, reduction.type);
}

void translate_reduction(Scope& scope) {
  const Reduction reduction = reduction_of(scope);
  if (reduction.axes.empty()) return scope.bind(0, scope.value(0));
  const std::string& op = scope.node.op;
  const std::string name = op == "ReduceMean"  ? "aten.mean.dim"
                           : op == "ReduceSum" ? "aten.sum.dim_IntList"
                           : op == "ReduceMax" ? "aten.amax"
                           : op == "ReduceMin" ? "aten.amin"
                                               : "aten.logsumexp";
  scope.bind(0, reduce(scope, name, scope.value(0), reduction));
}

// A sum of something: of absolute values (L1), of squares (SumSquare, and its root, L2), and its logarithm.
void translate_sum_of(Scope& scope) {
  const Reduction reduction = reduction_of(scope);
  const std::string& op = scope.node.op;
  const TensorType type = scope.type(0);
  ValueId value = scope.value(0);
  if (op == "ReduceL1")
    value = scope.emit("aten.abs", {{"self", value}}, {}, type);
  else if (op != "ReduceLogSum")
    value = scope.emit("aten.mul.Tensor", {{"self", value}, {"other", value}}, {}, type);
  if (!reduction.axes.empty()) value = reduce(scope, "aten.sum.dim_IntList", value, reduction);
  if (op == "ReduceL2") value = scope.emit("aten.sqrt", {{"self", value}}, {}, scope.type_of(value));
  if (op == "ReduceLogSum") value = scope.emit("aten.log", {{"self", value}}, {}, scope.type_of(value));
  scope.bind(0, value);
}

void translate_product(Scope& scope) {
  const Reduction reduction = reduction_of(scope);
  if (reduction.axes.size() != 1) scope.refuse("a product over other than one dimension is not supported");
  scope.bind(0, scope.emit("aten.prod.dim_int", {{"self", scope.value(0)}},
                           {{"dim", reduction.dims[0]}, {"keepdim", reduction.keep}}, reduction.type));
}

void translate_place_of_extremum(Scope& scope) {
  const std::size_t axis = scope.axis(scope.integer("axis", 0), scope.type(0).rank());
  if (scope.integer("select_last_index", 0) != 0)
    scope.refuse("the last of several equal positions (select_last_index) is not supported");
  const bool keep = scope.integer("keepdims", 1) != 0;
  scope.bind(0, scope.emit(scope.node.op == "ArgMax" ? "aten.argmax" : "aten.argmin", {{"self", scope.value(0)}},
                           {{"dim", static_cast<std::int64_t>(axis)}, {"keepdim", keep}},
                           {DType::int64, reduced(scope.shape(0), {axis}, keep)}));
}

}  // namespace

void add_reductions(Translations& all) {
  for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceLogSumExp"})
    all[op] = translate_reduction;
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}) all[op] = translate_sum_of;
  for (const char* op : {"ArgMax", "ArgMin"}) all[op] = translate_place_of_extremum;
  all["ReduceProd"] = translate_product;
}

}  // namespace meshwright::onnx
