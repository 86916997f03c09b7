// How the nodes of one op's gradient lie on the mesh. The plan says in which layouts the op has its operands, receives
// its results' gradients and yields those of its operands; what is between follows from the nodes' own rules. Private
// to the kernel.
#pragma once

#include <map>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/strategy.h"

namespace meshwright {

struct BackwardGroup {
  const Graph& graph;
  const AtomizedGraph& atoms;
  const Mesh& mesh;
  NodeId forward = kNoId;                 // the op
  const std::vector<AxisChoice>& axes;    // its own
  std::vector<NodeId> nodes;              // of the gradient, in order
  std::map<ValueId, Layout> available;    // what the nodes use of the forward and of the gradients that come in
  std::vector<std::pair<ValueId, Layout>> wanted;  // operands' gradients, and the layouts in which they must end
};

// One strategy for each node: the choices under which least must be converted, axis by axis. A value that is neither
// available nor made by the nodes is a constant, which can be had in any layout. A node that reads the rank's own results
// (TensorRule::own) shares its work as the op does. Errors: plugin_failed if its rule does not allow that.
Result<std::vector<Strategy>> choose_backward_axes(const BackwardGroup& group);

}  // namespace meshwright
