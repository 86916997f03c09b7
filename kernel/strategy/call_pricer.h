// What one call costs on one device under a strategy: the price of what it localizes to. Private to the kernel.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "meshwright/call_price.h"
#include "meshwright/local_call.h"
#include "meshwright/strategy.h"

namespace meshwright {

struct CallPrice {
  double seconds = 0;                // computing
  double communication_seconds = 0;  // collectives inside the op
  double host_seconds = 0;           // to issue both
};

// Over how many devices a strategy cuts a factor, and the largest local extent that is left of it.
struct FactorShare {
  std::int64_t shards = 1;
  std::int64_t extent = 1;
};
std::vector<FactorShare> factor_shares(const AtomizedNode& node, const Mesh& mesh, const std::vector<AxisChoice>& axes);

class CallPricer {
 public:
  // Of one node of the training graph, or of the forward, whose atoms these are; the references must outlive it.
  CallPricer(const ProblemInput& input, const Graph& graph, const AtomizedGraph& atoms, NodeId node);

  // Errors: the family's, where it cannot say what one rank executes.
  Result<CallPrice> price(const CallLayouts& call);
  // What one device does of it, where it is itself on local shapes.
  [[nodiscard]] CallShare share(const CallLayouts& call) const;

 private:
  class Builder;

  Result<bool> takes_steps(const CallLayouts& call);
  [[nodiscard]] double launch_seconds(double seconds, const FusedCall& fused) const;
  Status localize(const CallLayouts& call, Builder& build) const;

  const AtomizedNode& atoms_;
  const OpFamily* family_;
  const OpTable& ops_;
  const CostProfile& profile_;
  const Mesh& mesh_;
  const FusedCall& fused_;
  Node node_;  // its values are numbered: operands, then results
  std::vector<TensorType> operands_, results_;
  std::vector<const AtomShape*> operand_shapes_, result_shapes_;
  DType dtype_ = DType::float32;
  std::vector<ProductRole> product_roles_;
  // Whether an op that does this along an axis of this size is more than itself on local shapes.
  std::map<std::tuple<std::int64_t, AxisUse, FactorId, std::uint8_t, std::uint8_t>, bool> steps_;
};

}  // namespace meshwright
