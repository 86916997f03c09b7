// New tensors: numbers in a row (arange.py) and random ones (random_numbers.py), of which a rank may have a part.
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "python_text.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// Which of the numbers in a row are here; empty: all.
std::string here_argument(const EmitterCall& call) {
  return named("here", positions(call.attributes, call.rank_attributes, "positions"));
}

Result<EmittedOp> arange(const EmitterCall& call, const CallText& text) {
  const std::string here = here_argument(call);
  if (here.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("arange", {}, {"end", "start", "step", "dtype"}, {here}), .prelude = kPrelude};
}

Result<EmittedOp> linspace(const EmitterCall& call, const CallText& text) {
  const std::string here = here_argument(call);
  if (here.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("linspace", {"start", "end", "steps"}, {"dtype"}, {here}), .prelude = kPrelude};
}

Result<EmittedOp> eye(const EmitterCall& call, const CallText& text) {
  if (call.rank_attributes.empty()) return EmittedOp{};
  return EmittedOp{.text = text.helper("eye", {"n"}, {"m", "dtype"},
                                       {positions_argument(call, "rows"), positions_argument(call, "columns")}),
                   .prelude = kPrelude};
}

// The numbers of the elements of the whole tensor that are here. Empty: there is no such function.
std::string drawn(const EmitterCall& call) {
  const Node node = call.node();
  const TensorType local = call.local(call.results[0]);
  const std::string elements = positions_argument(call, "elements");
  const std::string from = stream_argument(call) + (elements.empty() ? "" : ", " + elements);
  const std::string type = dtype(local.dtype), made = ", dtype=" + type, size = tuple(local.shape);
  const auto real = [&](const char* name, double otherwise) { return number(node.number(name, otherwise)); };
  const auto is = [&](const char* beginning) { return node.op.starts_with(beginning); };
  if (is("aten.randint")) {
    return "randint(" + std::to_string(node.integer("low", 0)) + ", " + std::to_string(node.integer("high", 1)) + ", " +
           size + ", " + from + made + ")";
  }
  if (is("aten.randperm")) {
    return "rand(" + size + ", " + from + ", dtype=torch.float64).argsort(stable=True)" +
           (local.dtype == DType::int64 ? "" : ".to(" + type + ")");
  }
  if (is("aten.randn")) return "randn(" + size + ", " + from + made + ")";
  if (is("aten.rand")) return "rand(" + size + ", " + from + made + ")";
  if (is("aten.uniform"))
    return "rand(" + size + ", " + from + made + ", low=" + real("from", 0) + ", high=" + real("to", 1) + ")";
  if (is("aten.normal"))
    return "randn(" + size + ", " + from + made + ", mean=" + real("mean", 0) + ", std=" + real("std", 1) + ")";
  if (is("aten.exponential")) return "exponential(" + size + ", " + from + made + ", lambd=" + real("lambd", 1) + ")";
  if (is("aten.bernoulli.p"))
    return "(rand(" + size + ", " + from + ", dtype=torch.float64) < " + real("p", 0.5) + ").to(" + type + ")";
  return call.operands.size() == 1 ? "bernoulli(" + call.operands[0].text + ", " + from + ")" : "";
}

Result<EmittedOp> random(const EmitterCall& call, const CallText& text) {
  const bool whole = call.local(call.results[0]).shape == call.results[0].type.shape;
  const bool known = whole || !positions_argument(call, "elements").empty();
  const std::string numbers = known ? drawn(call) : "";
  if (!numbers.empty()) return EmittedOp{.text = numbers, .draws = true, .prelude = kPrelude};
  return call.rank_attributes.empty() ? write_drawn_alike(call, text) : EmittedOp{};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.zeros", "torch.zeros({size}[, dtype={dtype}], device=device())"},
    {"torch:aten.ones", "torch.ones({size}[, dtype={dtype}], device=device())"},
    {"torch:aten.full", "torch.full({size}, {fill_value}[, dtype={dtype}], device=device())"},
    {"torch:aten.arange", "torch.arange({end}[, dtype={dtype}], device=device())", arange},
    {"torch:aten.arange.start", "torch.arange({start}, {end}[, dtype={dtype}], device=device())", arange},
    {"torch:aten.arange.start_step", "torch.arange({start}, {end}[, {step}][, dtype={dtype}], device=device())",
     arange},
    {"torch:aten.linspace", "", linspace},
    {"torch:aten.eye", "", eye},
    {"torch:aten.eye.m", "", eye},
    {"torch:aten.rand", "", random},
    {"torch:aten.rand_like", "", random},
    {"torch:aten.randn", "", random},
    {"torch:aten.randn_like", "", random},
    {"torch:aten.randint", "", random},
    {"torch:aten.randint.low", "", random},
    {"torch:aten.randint_like", "", random},
    {"torch:aten.randint_like.low_dtype", "", random},
    {"torch:aten.randperm", "", random},
    {"torch:aten.uniform", "", random},
    {"torch:aten.normal_functional", "", random},
    {"torch:aten.exponential", "", random},
    {"torch:aten.bernoulli", "", random},
    {"torch:aten.bernoulli.p", "", random},
    {"torch:aten.bernoulli.Tensor", "", write_drawn_alike},
    {"torch:aten.normal.Tensor_Tensor", "", write_drawn_alike},
    {"torch:aten.normal.Tensor_float", "", write_drawn_alike},
    {"torch:aten.normal.float_Tensor", "", write_drawn_alike},
    {"torch:aten.normal.float_float", "", write_drawn_alike},
    {"torch:aten.multinomial", "", write_drawn_alike},
    {"torch:aten.poisson", "", write_drawn_alike},
    {"torch:aten.binomial", "", write_drawn_alike},
    {"torch:aten.log_normal", "", write_drawn_alike},
    {"torch:aten.cauchy", "", write_drawn_alike},
    {"torch:aten.geometric", "", write_drawn_alike},
    {"torch:aten._sample_dirichlet", "", write_drawn_alike},
    {"torch:aten._standard_gamma", "", write_drawn_alike},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_factory", "0.1.0", "Apache-2.0", "New tensors, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
