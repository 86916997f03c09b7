// What one device takes for one op: the only way from a local call to seconds. The search asks with a strategy's local shapes, a
// simulation with a program's, and both get the same number for the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/fusion.h"
#include "meshwright/op.h"
#include "meshwright/shard.h"

namespace meshwright {

// The part of a call that one device does, in terms of the rule that its cost is stated in.
struct CallShare {
  std::vector<std::int64_t> extents;  // of each factor, the largest share
  std::vector<std::int64_t> shards;   // over how many devices each factor is cut: a causal one is priced for its slowest device
  std::vector<std::int64_t> operand_bytes, result_bytes;
  DType dtype = DType::float32;       // in which it is computed
  double longer = 1;                  // the slowest device's work over an equal share of it (Exchange::imbalance)
  ProductShape product = {};
};

// What each factor is in a matrix product of the first two operands that are no addends.
enum class ProductRole : std::uint8_t { none, batch, row, column, reduced };

// By factor; empty for what is no single product.
MESHWRIGHT_API std::vector<ProductRole> product_roles(const Rule& rule, const OpCost& cost);
MESHWRIGHT_API ProductShape product_shape(const std::vector<ProductRole>& roles, const std::vector<std::int64_t>& extents);

// What a clock is asked about a call, whatever the clock. Views are no work. A call whose family states none reads its operands and
// writes its results, but for what `fused` says that stays in registers.
MESHWRIGHT_API Work call_work(const OpCost& cost, const CallShare& share, const FusedCall& fused = {});
MESHWRIGHT_API Work call_work(const OpTable& ops, const Mesh& mesh, const Node& node, const std::vector<const ShardedType*>& operands,
                              const std::vector<const ShardedType*>& results, const FusedCall& fused = {});

MESHWRIGHT_API double call_seconds(const CostProfile& profile, const OpCost& cost, const CallShare& share, const FusedCall& fused = {});

// One op on the shapes of one rank, priced by the rule and the cost that its family states for these shapes. `node` has the
// attributes of rank 0.
MESHWRIGHT_API double call_seconds(const CostProfile& profile, const OpTable& ops, const Mesh& mesh, const Node& node,
                                   const std::vector<const ShardedType*>& operands, const std::vector<const ShardedType*>& results,
                                   const FusedCall& fused = {});

// The first floating-point type among them, operands first.
MESHWRIGHT_API DType computing_dtype(const std::vector<DType>& operands, const std::vector<DType>& results);

// The update of one parameter, where a device keeps the optimizer's state of `elements` of it. One kernel updates all
// parameters, so a parameter pays for no launch. `bytes` are moved for each element (TrainingSettings::step_bytes).
MESHWRIGHT_API double update_seconds(const CostProfile& profile, std::int64_t elements, std::int64_t bytes, DType dtype);

// Adds one tensor of so many bytes to another one, in place.
MESHWRIGHT_API double accumulate_seconds(const CostProfile& profile, std::int64_t bytes);

// So many bytes from devices of another stage of a pipeline to one device.
MESHWRIGHT_API double travel_seconds(const CostProfile& profile, std::int64_t bytes);

}  // namespace meshwright
