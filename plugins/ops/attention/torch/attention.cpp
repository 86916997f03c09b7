// Attention; where the rank has some of the queries, or weights are dropped, by the prelude (attention.py).
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// A bias is as wide as the queries are when the program runs, in place of the type that it was planned in: with a narrower one PyTorch's kernels for CPUs add
// what is no number of it, without a word.
constexpr const char* kWithBias = "F.scaled_dot_product_attention({query}, {key}, {value}, attn_mask={attn_mask}.to({query}.dtype)"
                                  "[, dropout_p={dropout_p}][, is_causal={is_causal}][, scale={scale}][, enable_gqa={enable_gqa}])";

Result<EmittedOp> attention(const EmitterCall& call, const CallText& text) {
  const bool drops = call.node().number("dropout_p", 0) > 0;
  if (call.rank_attributes.empty() && !drops) {
    const EmitterOperand* mask = call.operand("attn_mask");
    const bool adds = mask != nullptr && mask->type.type.dtype != DType::boolean && call.steps.empty();
    return adds ? EmittedOp{.text = text.in_form(kWithBias)} : EmittedOp{};
  }
  std::vector<std::string> more = {positions_argument(call, "queries"), positions_argument(call, "rows")};
  if (drops) more.insert(more.end(), {"training=self.training", stream_argument(call)});
  return EmittedOp{.text = text.helper("scaled_dot_product_attention", {"query", "key", "value"},
                                       {"attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"}, more),
                   .draws = drops,
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.scaled_dot_product_attention",
     "F.scaled_dot_product_attention({query}, {key}, {value}[, attn_mask={attn_mask}]"
     "[, dropout_p={dropout_p}][, is_causal={is_causal}][, scale={scale}][, enable_gqa={enable_gqa}])",
     attention},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_attention", "0.1.0", "Apache-2.0", "Attention, as PyTorch", kServes.data(),
                  nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
