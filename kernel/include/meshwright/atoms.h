// The atoms of every tensor of a graph, found by carrying cuts through the sharding rules to a fixpoint (DESIGN §2).
// A view that reads 768 as 12·64 cuts that dimension wherever the rules say that it is the same one, into the weights
// too, so that layouts of all these tensors speak of the same atoms and a view is never a conversion.
//
// Where two cuts of one dimension cannot stand together (6 and 4 of 12), the first one met stays and the factors of
// the op that asked for the other become whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/layout.h"
#include "meshwright/op.h"
#include "meshwright/rule.h"

namespace meshwright {

struct AtomizedNode {
  Rule rule;
  OpCost cost;
  std::vector<std::vector<std::int64_t>> factor_atoms;  // for each factor its atoms' sizes, major to minor
  bool ruled = true;                                     // false: no family serves the op, or its family refused the call
};

struct AtomizedGraph {
  std::vector<AtomShape> values;                    // as graph.values
  std::vector<std::vector<std::uint32_t>> classes;  // by value and atom: atoms of two tensors are one and the same if their classes are
  std::vector<AtomizedNode> nodes;                  // as graph.nodes
  std::vector<std::string> warnings;                // one for each distinct op without a rule
};

// Errors: a family's own (plugin_failed, internal).
MESHWRIGHT_API Result<AtomizedGraph> atomize(const Graph& graph, const OpTable& ops);

// The atoms of a graph that begins with another one's values and nodes, whose atoms stay as they are: where more nodes
// would cut them further, these nodes' factors become whole. `like` names, for each value, one of the same shape that is
// cut alike: for a gradient its value, for all others the value itself.
MESHWRIGHT_API Result<AtomizedGraph> atomize_further(const Graph& graph, const AtomizedGraph& begun, const OpTable& ops,
                                                     const std::vector<ValueId>& like);

// The position of atom `atom` of factor `factor`, which is not whole, among the atoms `shape` of a tensor with this
// rule; kNoId if the tensor does not have the factor.
MESHWRIGHT_API std::uint32_t find_atom(const AtomizedNode& node, const TensorRule& tensor, const AtomShape& shape,
                                       FactorId factor, std::size_t atom);

}  // namespace meshwright
