// A model as it would have been exported with other sizes: a hidden size of 64 in place of 8192.
//
// What can change is the size of a class of atoms: all that rules, loops over positions and tables of positions say is one and the
// same size. Sizes that follow from others (a slice of all but one, two halves of unlike use) are tied to them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"

namespace meshwright {

// Two classes whose sizes change together: by one factor, which divides both sizes and `divided`, or so that their difference stays.
struct SizeTie {
  std::uint32_t one = 0, other = 0;
  bool scales = false;
  std::vector<std::int64_t> divided;  // places where a tensor is cut
};

struct SizeClasses {
  std::vector<std::vector<std::uint32_t>> of;  // by value and atom; no finer than AtomizedGraph::classes
  std::map<std::uint32_t, std::int64_t> sizes;
  std::vector<SizeTie> ties;
  std::map<std::uint32_t, std::string> fixed;  // those that have no other size, and why
};

MESHWRIGHT_API SizeClasses size_classes(const Graph& graph, const AtomizedGraph& atoms);

struct Resized {
  Graph graph;                                // with the names, nodes and ids of the one that was given
  std::map<std::uint32_t, std::string> held;  // classes that keep their size though another was asked for, and why: the op that does not bear it
};

// The graph with these sizes, by class; a class that is not named keeps its own. Sizes in attributes follow. Every node is held against the schema of its
// op and against its rule, which must be the one that it had but for sizes; where one does not bear its new sizes, as few classes as possible keep theirs, and those that are tied to them.
// Errors: bad_input, for a class that there is not, a size below 2, or a node that does not even bear the sizes that it had.
MESHWRIGHT_API Result<Resized> resize(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const OpTable& ops, std::map<std::uint32_t, std::int64_t> sizes);

}  // namespace meshwright
