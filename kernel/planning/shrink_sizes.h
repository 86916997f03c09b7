// Small sizes for a model, under which a plan of it can still be carried out: what it cuts into d parts stays divided by d, or undivided as it was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/plan.h"
#include "meshwright/resize.h"

namespace meshwright {

struct SmallSizes {
  std::map<std::uint32_t, std::int64_t> sizes;     // by class, of those that become smaller
  std::map<std::uint32_t, std::string> held;       // classes that don't, and why; of those that are small already nothing is said
};

// `classes` are those of `graph`, whose atoms are `atoms`; `stages` the plans of its stages, or of all of it. Each size is divided as it was by what it is cut
// into, and is at least twice that; sizes of different classes differ where they can, so that one that is taken for another is seen, but for what is the same thing in several blocks.
SmallSizes small_sizes(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const std::vector<const Plan*>& stages);

// Into how many parts the plans cut each class at most (the least common multiple, where they differ).
std::map<std::uint32_t, std::int64_t> parts_of_classes(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const std::vector<const Plan*>& stages);

// Where a class is met: "dimension 1 of 'tokens'"; of an input if it can be, else of a parameter.
std::string place_of_class(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, std::uint32_t of);

}  // namespace meshwright
