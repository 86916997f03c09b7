// Seconds and bytes of the strategies of each kind of variable (docs/cost-model.md). Private to the kernel.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "meshwright/strategy.h"
#include "strategy/backward_axes.h"
#include "strategy/call_pricer.h"

namespace meshwright {

class NodePricer {
 public:
  // Of one node of the forward; the references must outlive it.
  NodePricer(const ProblemInput& input, NodeId node, ConversionPaths& paths);

  // Fills in the seconds of the op and of the nodes of its gradient, with what they send inside and what is converted between
  // them, but for the constants: these it gives. Errors: an op family's.
  Result<std::vector<ConstantUse>> price(Strategy& strategy);

 private:
  Status price_backward(Strategy& strategy, std::vector<ConstantUse>& constants);
  Status add_conversion(ValueId value, const Layout& from, const Layout& to, double& seconds);

  const ProblemInput& input_;
  const NodeId node_;
  ConversionPaths& paths_;
  CallPricer forward_;
  std::optional<BackwardAxes> axes_;
  std::deque<CallPricer> backward_;  // as the nodes of the gradient
};

// The sums of gradients of a value with several uses.
struct ForkSums {
  std::uint32_t count = 0;
  std::vector<const FusedCall*> fused;  // of each; empty where no compiler fuses
};

// Makes the sums in the layout in which the fork keeps them.
void price_fork(const AtomShape& shape, const TensorType& type, const ForkSums& sums, const ProblemInput& input,
                Strategy& strategy);

// A value, or its gradient, until a device has received its part from other stages, so many of which hand it over.
double received_seconds(const AtomShape& shape, const TensorType& type, const Layout& layout, std::size_t stages, const ProblemInput& input);

// The gradient of the loss, from which the backward begins.
void price_seed(const AtomShape& shape, const TensorType& type, const ProblemInput& input, Strategy& strategy);

// But for what the update gathers and cuts, where the value is held otherwise than its state: EdgeTables knows its price.
void price_parameter(const AtomShape& shape, const TensorType& type, const ProblemInput& input, Strategy& strategy);

}  // namespace meshwright
