// What a compiler like PyTorch's Inductor makes one kernel of, decided once from the graph, whatever the strategy: chains of
// elementwise ops, and reductions with the elementwise ops before and behind them (docs/cost-model.md, "What a compiler fuses").
// What one op of a kernel hands to another one travels in registers.
//
// Ops join one kernel if
//   their families say that they fuse (OpCost::fusion), and both are of the forward or both of the backward;
//   one reads what the other makes, as it is or through a view that keeps the order of elements or repeats them;
//   they work through the same points: as many elements, or those that a reduction reads or is left with, and two reductions run
//   along the same dimensions of the same sizes;
//   no op outside has to run after the one and before the other;
//   what is handed on isn't one number for more elements than a multiprocessor keeps, as the sum of a large tensor is: what uses
//   that with all of these elements reads them again, in another kernel.
#pragma once

#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"

namespace meshwright {

// What one call doesn't do by itself, since it is a part of a kernel. Empty lists: it reads and writes everything.
struct FusedCall {
  std::vector<bool> unread;     // by operand: another op of the kernel made it, or has read it already
  std::vector<bool> unwritten;  // by result: only ops of the kernel use it
  bool launches = true;         // one op of each kernel does
  bool operator==(const FusedCall&) const = default;
};

// By node. Nodes from `first_backward` on are the backward, which begins with the seed: a kernel of its own. `kept`: values that are
// needed beyond the graph's own outputs, such as the gradients of parameters.
MESHWRIGHT_API std::vector<FusedCall> fuse(const Graph& graph, const AtomizedGraph& atoms, NodeId first_backward,
                                           const std::vector<ValueId>& kept);

// Of one of the steps that a rank executes in the place of `call`: of its tensors those of the call that stay in registers do so here
// too. A step that isn't the call itself launches a kernel. Operands are compared by value, those that are kNoId left out.
MESHWRIGHT_API FusedCall fused_step(const FusedCall& fused, const Node& call, const std::vector<Operand>& operands,
                                    const std::vector<ValueId>& results);

}  // namespace meshwright
