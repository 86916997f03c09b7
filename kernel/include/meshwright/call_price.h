// What one device takes for one op: the only way from a local call to seconds. The search asks with a strategy's local shapes, a
// simulation with a program's, and both get the same number for the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/shard.h"

namespace meshwright {

// The part of a call that one device does, in terms of the rule that its cost is stated in.
struct CallShare {
  std::vector<std::int64_t> extents;  // of each factor, the largest share
  std::vector<std::int64_t> shards;   // over how many devices each is cut: of a causal one the slowest is priced
  std::vector<std::int64_t> operand_bytes, result_bytes;
  DType dtype = DType::float32;       // that it computes in
  double longer = 1;                  // than if those who share the work had equal parts of it (Exchange::imbalance)
};

// Views cost nothing; what has no cost stated at least reads and writes.
MESHWRIGHT_API double call_seconds(const CostProfile& profile, const OpCost& cost, const CallShare& share);

// One op on the shapes of one rank, which its family prices as it is. `node` has the attributes of the rank at the first
// coordinates.
MESHWRIGHT_API double call_seconds(const CostProfile& profile, const OpTable& ops, const Mesh& mesh, const Node& node,
                                   const std::vector<const ShardedType*>& operands, const std::vector<const ShardedType*>& results);

// The first floating-point type among them, operands first.
MESHWRIGHT_API DType computing_dtype(const std::vector<DType>& operands, const std::vector<DType>& results);

// An update of one parameter, of which this device keeps the state of so many elements: part of one update of all parameters,
// without a launch of its own. `bytes` is what it moves for an element (TrainingSettings::step_bytes).
MESHWRIGHT_API double update_seconds(const CostProfile& profile, std::int64_t elements, std::int64_t bytes, DType dtype);

// Adds one tensor of so many bytes to another one, in place.
MESHWRIGHT_API double accumulate_seconds(const CostProfile& profile, std::int64_t bytes);

}  // namespace meshwright
