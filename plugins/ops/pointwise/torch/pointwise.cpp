// Ops on single elements as people write them.
#include "meshwright/plugin.h"
#include "python_text.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// A clone in another order of its elements than the usual one says so.
Result<EmittedOp> clone(const EmitterCall& call, const CallText& text) {
  const std::string order = call.node().text("memory_format", "contiguous");
  return EmittedOp{.text = order == "contiguous" ? "" : text.by_schema({"memory_format"})};
}

// What is copied, in the shape and type of what it is copied over: PyTorch's functional copy has no derivative.
Result<EmittedOp> copy(const EmitterCall& call, const CallText&) {
  const EmitterOperand* source = call.operand("src");
  if (source == nullptr) return EmittedOp{};
  const TensorType from = call.local(source->type), to = call.local(call.results[0]);
  std::string text = source->text;
  if (from.dtype != to.dtype) text += ".to(" + dtype(to.dtype) + ")";
  return EmittedOp{.text = from.shape == to.shape ? text : text + ".expand(" + tuple(to.shape) + ")"};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.add.Tensor", "{self} + {other}"},
    {"torch:aten.add.Scalar", "{self} + {other}"},
    {"torch:aten.sub.Tensor", "{self} - {other}"},
    {"torch:aten.rsub.Scalar", "{other} - {self}"},
    {"torch:aten.mul.Tensor", "{self} * {other}"},
    {"torch:aten.mul.Scalar", "{self} * {other}"},
    {"torch:aten.div.Tensor", "{self} / {other}"},
    {"torch:aten.div.Scalar", "{self} / {other}"},
    {"torch:aten.neg", "-{self}"},
    {"torch:aten.pow.Tensor_Scalar", "{self}.pow({exponent})"},
    {"torch:aten.exp", "{self}.exp()"},
    {"torch:aten.sqrt", "{self}.sqrt()"},
    {"torch:aten.rsqrt", "{self}.rsqrt()"},
    {"torch:aten.tanh", "torch.tanh({self})"},
    {"torch:aten.sigmoid", "torch.sigmoid({self})"},
    {"torch:aten.cos", "{self}.cos()"},
    {"torch:aten.sin", "{self}.sin()"},
    {"torch:aten.eq.Scalar", "{self} == {other}"},
    {"torch:aten.eq.Tensor", "{self} == {other}"},
    {"torch:aten.ne.Scalar", "{self} != {other}"},
    {"torch:aten.ne.Tensor", "{self} != {other}"},
    {"torch:aten.lt.Scalar", "{self} < {other}"},
    {"torch:aten.lt.Tensor", "{self} < {other}"},
    {"torch:aten.le.Scalar", "{self} <= {other}"},
    {"torch:aten.le.Tensor", "{self} <= {other}"},
    {"torch:aten.gt.Scalar", "{self} > {other}"},
    {"torch:aten.gt.Tensor", "{self} > {other}"},
    {"torch:aten.ge.Scalar", "{self} >= {other}"},
    {"torch:aten.ge.Tensor", "{self} >= {other}"},
    {"torch:aten.bitwise_and.Tensor", "{self} & {other}"},
    {"torch:aten.bitwise_or.Tensor", "{self} | {other}"},
    {"torch:aten.__and__.Tensor", "{self} & {other}"},
    {"torch:aten.__or__.Tensor", "{self} | {other}"},
    {"torch:aten.bitwise_not", "~{self}"},
    {"torch:aten.logical_not", "{self}.logical_not()"},
    {"torch:aten.where.self", "torch.where({condition}, {self}, {other})"},
    {"torch:aten.masked_fill.Scalar", "{self}.masked_fill({mask}, {value})"},
    {"torch:aten.clone", "{self}.clone()", clone},
    {"torch:aten.contiguous", "{self}.contiguous()"},
    {"torch:aten.log", "{self}.log()"},
    {"torch:aten.abs", "{self}.abs()"},
    {"torch:aten.to.dtype", "{self}.to({dtype})"},
    {"torch:aten._to_copy", "{self}.to({dtype})"},
    {"torch:aten.relu", "F.relu({self})"},
    {"torch:aten.gelu", "F.gelu({self}[, approximate={approximate}])"},
    {"torch:aten.silu", "F.silu({self})"},
    {"torch:aten.copy", "", copy},
    {"torch:aten.rrelu", "", write_drawn_alike},
    {"torch:aten.rrelu_with_noise_functional", "", write_drawn_alike},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_pointwise", "0.1.0", "Apache-2.0", "Ops by elements, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
