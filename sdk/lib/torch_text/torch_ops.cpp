#include "torch_ops.h"

#include <algorithm>

namespace meshwright::torch {

Result<EmittedOp> TorchEmitter::do_emit(const EmitterCall& call) const {
  const auto op = std::ranges::find_if(ops_, [&](const TorchOp& each) {
    const std::string_view name = each.name;
    return name.substr(name.find(':') + 1) == call.op;
  });
  if (op == ops_.end()) return internal_error("the emitter's table has no such op");
  const CallText text(call);
  if (op->write != nullptr) {
    Result<EmittedOp> written = op->write(call, text);
    if (!written || !written->text.empty()) return written;
  }
  if (!call.rank_attributes.empty() || !call.steps.empty()) return EmittedOp{};
  return EmittedOp{.text = text.in_form(op->form)};
}

Result<EmittedOp> write_list(const EmitterCall& call, const CallText& text) {
  return call.results.size() == 1 ? EmittedOp{.text = text.by_schema() + "[0]"} : EmittedOp{};
}

Result<EmittedOp> write_drawn_alike(const EmitterCall& call, const CallText& text) {
  const auto is_whole = [&](const ShardedType& tensor) { return call.local(tensor).shape == tensor.type.shape; };
  const bool whole = std::ranges::all_of(call.results, is_whole) &&
                     std::ranges::all_of(call.operands, is_whole, &EmitterOperand::type);
  if (!whole)
    return bad_input("the ranks would draw other numbers than one device, and there is no function for that yet");
  return EmittedOp{.text = "drawn_alike(lambda: " + text.by_schema() + ", " + stream_argument(call) + ")",
                   .draws = true};
}

}  // namespace meshwright::torch
