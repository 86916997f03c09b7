// PyTorch's formulas (FunctionsManual.cpp).
#include <cmath>
#include <optional>

#include "statistics.h"
#include "term.h"

namespace meshwright {

namespace {

// 2 (x − mean)/(count − correction), for the deviation over 2·deviation, which is zero where there is none.
Term of_variance(const GradientCall& call, Term x, Term gradient, const std::vector<std::int64_t>& dims, double count) {
  const double divisor = count - correction_of(call.node);
  const std::vector<std::int64_t> kept = kept_shape(call.node, x.type());
  if (is_deviation(call.node)) {
    const Term deviation = view({call.build, call.node.results[0]}, kept);
    gradient = masked(compare("ne", deviation, 0), gradient / (deviation * 2));
  }
  const Term centered = x - sum(x, dims) / count;
  return gradient * (2 / divisor) * centered;
}

Term of_norm(const GradientCall& call, Term x, Term gradient, const std::vector<std::int64_t>& dims) {
  const double order = call.node.number("ord", 2);
  const Term norm = view({call.build, call.node.results[0]}, kept_shape(call.node, x.type()));
  if (order == 0) return zeros(call.build, x.type());
  if (order == 1) return sign(x) * gradient;
  const Term defined = compare("ne", norm, 0);
  if (order == 2) return x * masked(defined, gradient / norm);
  if (std::isinf(order)) {  // those that are extreme share it
    const Term extreme = cast(compare("eq", x.then("aten.abs"), norm), x.type().dtype);
    return sign(x) * extreme * (gradient / sum(extreme, dims));
  }
  const Term power = sign(x) * pow(x.then("aten.abs"), order - 1);
  return power * masked(defined, gradient / pow(norm, order - 1));
}

}  // namespace

Result<std::vector<ValueId>> statistics_gradient(const GradientCall& call) {
  const Node& node = call.node;
  if (node.op == kProdBackward) return bad_input("its op family states no gradient");
  if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
  const DType given = call.type(node.operands[0].value).dtype;
  const Term x = cast({call.build, node.operands[0].value}, call.type(node.results[0]).dtype);  // "dtype" converts before
  const TensorType type = x.type();
  const std::vector<std::int64_t> kept = kept_shape(node, type);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != type.shape[i]) dims.push_back(static_cast<std::int64_t>(i));
  }
  const double count = static_cast<double>(type.elements()) / static_cast<double>(TensorType{type.dtype, kept}.elements());
  std::optional<Term> made;
  if (call.result_gradients[0] != kNoId) {
    const Term gradient(call.build, call.result_gradients[0]);
    if (node.op.starts_with("aten.prod")) {
      made = Term(call.build, call.build.emit(kProdBackward, {{"grad_output", gradient.id()}, {"self", x.id()}}, node.attributes, type));
    } else if (is_variance(node)) {
      made = of_variance(call, x, view(gradient, kept), dims, count);
    } else if (node.op == "aten.logsumexp") {
      made = view(gradient, kept) * exp(x - view({call.build, node.results[0]}, kept));
    } else {
      made = of_norm(call, x, view(gradient, kept), dims);
    }
  }
  if (node.results.size() > 1 && call.result_gradients[1] != kNoId) {  // the mean's
    const Term share = expand(view({call.build, call.result_gradients[1]}, kept) / count, type.shape);
    made = made ? *made + share : share;
  }
  return std::vector<ValueId>{made ? cast(expand(*made, type.shape), given).id() : kNoId};
}

}  // namespace meshwright
