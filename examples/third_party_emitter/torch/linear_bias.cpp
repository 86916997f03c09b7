// How a rank's part of thirdparty.linear_bias is written: as a call of a function that is told which rows and columns
// are here.
#include "meshwright/plugin.h"
#include "prelude_text.h"  // generated: kPrelude, the text of linear_bias.py
#include "torch_ops.h"

namespace {

using namespace meshwright;
using namespace meshwright::torch;

Result<EmittedOp> linear_bias(const EmitterCall& call, const CallText& text) {
  return EmittedOp{.text = text.helper("linear_bias", {"self", "slope"}, {},
                                       {positions_argument(call, "rows"), positions_argument(call, "columns")}),
                   .prelude = kPrelude};
}

constexpr TorchOp kOps[] = {{"torch:thirdparty.linear_bias", "", linear_bias}};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_linear_bias", "1.0.0", "Apache-2.0", "Attention with linear biases, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>,
                  meshwright::destroy_plugin<meshwright::OpEmitter>)
