// What a StrategyFilter allows: data parallelism over some axes, weights in shards over others, context parallelism over others, experts apart over some. Private to the kernel.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

class Restrictions {
 public:
  explicit Restrictions(const ProblemInput& input);

  // On a batch axis a value that has the batch is sharded over it; another is whole, but for experts that lie apart over the axis.
  [[nodiscard]] bool allow_batch(ValueId id, const PortLayouts& port) const;
  // On a context axis a weight is whole, but for experts that lie apart over the axis, and no value is sharded along the batch.
  [[nodiscard]] bool allow_context(ValueId id, const PortLayouts& port) const;
  // On an expert axis a weight that has the experts of a layer is sharded along them.
  [[nodiscard]] bool allow_experts(ValueId id, const PortLayouts& port) const;
  [[nodiscard]] bool allow_node(NodeId id, const CallLayouts& call) const;
  [[nodiscard]] bool allow_parameter(ValueId id, const ParameterStrategy& strategy) const;
  // Whether the filter limits this value as a weight.
  [[nodiscard]] bool limits_weight(ValueId id) const;

  // What tells values apart that the filter treats differently: a part of the key of shared strategy sets.
  [[nodiscard]] std::string key(ValueId id) const;
  // The part of it that tells layers' experts from other weights; "" where there is no expert axis.
  [[nodiscard]] std::string experts_key(ValueId id) const;
  // Why a variable may be left without a strategy: "cannot be split along the batch over 8 devices".
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] bool is_batch(ValueId id, std::size_t atom) const { return batch_.contains(input_.atoms().classes[id][atom]); }
  [[nodiscard]] bool has_batch(ValueId id) const;
  [[nodiscard]] bool is_expert(ValueId id, std::size_t atom) const { return experts_.contains(input_.atoms().classes[id][atom]); }
  // Whether this value must be sharded along experts over the axis.
  [[nodiscard]] bool lies_apart(ValueId id, std::size_t axis) const { return has(input_.filter.expert_axes, axis) && of_experts_[id]; }
  [[nodiscard]] bool is_apart(ValueId id, Placement placement) const { return placement.is_shard() && is_expert(id, placement.atom()); }
  [[nodiscard]] static bool has(std::uint32_t axes, std::size_t axis) { return (axes >> axis & 1U) != 0; }

  const ProblemInput& input_;
  std::set<std::uint32_t> batch_;    // batch_atoms
  std::set<std::uint32_t> experts_;  // classes of atoms along which a layer's experts lie
  std::vector<bool> is_weight_;      // by value: a parameter of two dimensions or more that are worth sharding
  std::vector<bool> of_experts_;     // by value: it has such atoms, and nothing of the batch
};

}  // namespace meshwright
