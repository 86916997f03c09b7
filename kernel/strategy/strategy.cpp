#include "meshwright/strategy.h"

namespace meshwright {

const PortLayouts& Strategy::operand(std::uint32_t port) const {
  if (const NodeStrategy* call = node()) return call->call.operands[port];
  const auto* fork = std::get_if<ForkStrategy>(&choice);
  return fork != nullptr ? fork->layouts : std::get<OutputStrategy>(choice).layouts;
}

const PortLayouts& Strategy::result(std::uint32_t port) const {
  if (const NodeStrategy* call = node()) return call->call.results[port];
  const ParameterStrategy* stored = parameter();
  return stored != nullptr ? stored->stored : std::get<ForkStrategy>(choice).layouts;
}

double Strategy::seconds(std::int64_t microbatches) const {
  double each = forward_seconds + backward_seconds + again_seconds;
  if (const NodeStrategy* call = node()) each = each + call->forward_communication_seconds + call->backward_communication_seconds + call->constant_seconds;
  return static_cast<double>(microbatches) * each + (parameter() != nullptr ? parameter()->update_seconds : 0);
}

std::int64_t Strategy::resident_bytes() const {
  if (const ParameterStrategy* stored = parameter()) return stored->state_bytes + stored->gradient_bytes;
  return node() != nullptr ? node()->saved_bytes : 0;
}

}  // namespace meshwright
