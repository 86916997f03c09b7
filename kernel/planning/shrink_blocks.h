// A model with few of its blocks, for a plan of all of them: of blocks that are alike, and for which the plan chose the same, two are enough to try.
#pragma once

#include <string>
#include <vector>

#include "meshwright/carry_plan.h"
#include "meshwright/graph.h"
#include "meshwright/plan.h"

namespace meshwright {

struct FewBlocks {
  Graph graph;         // what is left has the names that it had
  TakenPlaces places;  // what a block that is gone handed on: what it was handed
  std::vector<std::string> blocks, kept;  // names (block_of in gather_units.h), in the model's order
  struct Stays {
    std::string block, why;
  };
  std::vector<Stays> stays;  // blocks that others are like, and that cannot be left out
};

// `stages`: the plans of the model's stages, or the only one. Two blocks are alike if they have the same ops on the same types, in the same stage, and the plan lays
// out, stores, recomputes all of it alike. The first and the last of those alike stay (only the first, where there are many kinds). What a block makes must take the place of what it was handed: a block
// that hands on two values, or one of another type, stays.
FewBlocks with_few_blocks(const Graph& graph, const std::vector<const Plan*>& stages);

}  // namespace meshwright
