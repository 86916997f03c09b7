// PyTorch's formulas (derivatives.yaml, scatter_reduce_backward in FunctionsManual.cpp).
#include <optional>

#include "scatter.h"
#include "term.h"

namespace meshwright {

namespace {

class Emitter {
 public:
  explicit Emitter(const GradientCall& call)
      : call_(call), gradient_(call.build, call.result_gradients[0]), index_(call.operand("index")),
        dim_(call.node.integer("dim", 0)) {}

  [[nodiscard]] Term gather(Term table, const TensorType& type) const {
    return {call_.build, call_.build.emit("aten.gather", {{"self", table.id()}, {"index", index_}}, {{"dim", dim_}}, type)};
  }
  // Zeros at the positions.
  [[nodiscard]] Term cleared(Term table) const {
    return {call_.build, call_.build.emit("aten.scatter.value", {{"self", table.id()}, {"index", index_}},
                                          {{"dim", dim_}, {"value", std::int64_t{0}}}, table.type())};
  }
  [[nodiscard]] Term add_at(Term table, Term added) const {
    return {call_.build, call_.build.emit("aten.scatter_add", {{"self", table.id()}, {"index", index_}, {"src", added.id()}},
                                          {{"dim", dim_}}, table.type())};
  }
  [[nodiscard]] Term ones(const TensorType& type) const {
    return {call_.build, call_.build.emit("aten.ones", {}, {{"size", type.shape}}, type)};
  }
  [[nodiscard]] Term self() const { return {call_.build, call_.operand("self")}; }
  [[nodiscard]] Term src() const { return {call_.build, call_.operand("src")}; }
  [[nodiscard]] Term gradient() const { return gradient_; }

 private:
  const GradientCall& call_;
  const Term gradient_;
  const ValueId index_;
  const std::int64_t dim_;
};

Result<std::vector<ValueId>> of_masked(const GradientCall& call) {
  std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
  const ValueId gradient = call.result_gradients[0], mask = call.operand("mask");
  if (call.wanted[0]) {
    gradients[0] = call.build.emit("aten.masked_fill.Scalar", {{"self", gradient}, {"mask", mask}}, {{"value", std::int64_t{0}}},
                                   call.type(gradient));
  }
  if (call.wanted[2]) {
    gradients[2] = call.build.emit(kMaskedBackward, {{"grad_output", gradient}, {"mask", mask}}, {}, call.type(call.operand("source")));
  }
  return gradients;
}

}  // namespace

Result<std::vector<ValueId>> scatter_gradient(const GradientCall& call) {
  const Node& node = call.node;
  if (node.op == kMaskedBackward) return bad_input("its op family states no gradient");
  if (is_masked(node)) return of_masked(call);
  const Result<ScatterReduction> reduction = scatter_reduction(node);
  if (!reduction) return reduction.error();
  if (*reduction == ScatterReduction::product) return bad_input("the gradient of a scatter that multiplies is not stated");
  std::vector<ValueId> gradients(node.operands.size(), kNoId);
  const Emitter emit(call);
  const bool of_src = node.operands.size() > 2 && call.wanted[2];
  if (of_src && call.type(call.operand("src")).shape != call.type(call.operand("index")).shape) {
    return bad_input("the gradient of a scatter's src that is larger than its index is not stated");
  }
  if (*reduction == ScatterReduction::overwrite) {
    if (call.wanted[0]) gradients[0] = emit.cleared(emit.gradient()).id();
    if (of_src) gradients[2] = emit.gather(emit.gradient(), emit.src().type()).id();
    return gradients;
  }
  Term share = emit.gradient();
  std::optional<Term> of_self, taken;  // which elements the result is made of, where it is one of them
  if (*reduction == ScatterReduction::mean) {
    const TensorType& type = emit.self().type();
    const Term counts = emit.add_at(includes_self(node) ? emit.ones(type) : zeros(call.build, type), emit.ones(emit.src().type()));
    share = share / counts.then("aten.clamp_min", {{"min", 1.0}});
  } else if (*reduction != ScatterReduction::sum) {
    const Term result(call.build, node.results[0]);
    of_self = cast(compare("eq", emit.self(), result), share.type().dtype);
    taken = cast(compare("eq", emit.src(), emit.gather(result, emit.src().type())), share.type().dtype);
    share = share / emit.add_at(*of_self, *taken);
  }
  if (call.wanted[0]) {
    const Term here = of_self ? *of_self * share : share;
    gradients[0] = (includes_self(node) ? here : emit.cleared(here)).id();
  }
  if (of_src) {
    const Term here = emit.gather(share, emit.src().type());
    gradients[2] = (taken ? *taken * here : here).id();
  }
  return gradients;
}

}  // namespace meshwright
