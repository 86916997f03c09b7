// Which atoms have one size, whatever the export: those that rules say are the same one, and those of which rules say nothing because they stay whole.
// Private to the kernel.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"

namespace meshwright {

class SizeJoins {
 public:
  // Both must outlive it.
  SizeJoins(const Graph& graph, const AtomizedGraph& atoms);

  [[nodiscard]] std::uint32_t class_of(ValueId value, std::size_t atom) const;

 private:
  void join_whole_factors();
  void join_enumerated_dimensions();
  void join(ValueId a, std::size_t a_dimension, ValueId b, std::size_t b_dimension);

  const Graph& graph_;
  const AtomizedGraph& atoms_;
  std::map<std::uint32_t, std::uint32_t> parent_;  // of classes that are joined here
};

// The arange(n) whose numbers stand in `value`, in another shape; kNoId if there is none.
ValueId enumeration_behind(const Graph& graph, ValueId value);

// The call's node for tensors of other sizes: those that stand in its attributes (of a view, an expansion, zeros, arange, repeat, a norm) are the new ones,
// and where it cuts a dimension, it cuts it in the same proportion, if that is a whole number. (Exported for its tests.)
MESHWRIGHT_API Node node_of_sizes(const OpCall& before, const std::vector<TensorType>& operands, const std::vector<TensorType>& results);

}  // namespace meshwright
