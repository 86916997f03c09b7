// TAP's Algorithm 1 (§4.3): which parts of a model are the same, so that a decision is made once for all of them.
//
// Names are a tree, whose levels are the common prefixes of the GraphNodes' scopes. From the deepest level up, a level is cut into
// blocks by prefix; while the block that has most GraphNodes in all its copies occurs `min_duplicates` times or more, the level is
// taken and the next one is looked at. Blocks are the same if their GraphNodes are, one by one, and are joined alike. A module that is called several
// times is a block for each call.
//
// Where a GraphNode has no name, structure stands in: runs of equal GraphNodes in topological order are cut into periods.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_nodes.h"

namespace meshwright::tap {

struct Block {
  std::string scope;                 // "" where names are missing
  std::vector<std::uint32_t> nodes;  // GraphNodes, ascending
};

struct Folding {
  std::vector<Block> blocks;                       // every GraphNode is in one
  std::vector<std::vector<std::uint32_t>> unique;  // blocks that are the same, ascending; one decision each
  bool by_name = true;
};

// With `min_duplicates` of 1 nothing is folded: Figure 7's unpruned graph. Where nothing occurs as often as it says, every GraphNode
// is a block of its own, and equal ones are the same.
Folding fold(const std::vector<GraphNode>& nodes, std::int64_t min_duplicates);

}  // namespace meshwright::tap
