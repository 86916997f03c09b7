// What is not kept for the backward: the forward of some blocks, which runs again before theirs (Chen et al. 2016, arXiv 1604.06174).
//
// A block is what repeats in a model (block_of in gather_units.h). What crosses its border is kept; of the rest runs again what its backward
// asks for, and what that is made of: not the last product of a block, whose result nothing in it saves. A block runs again where its backward begins.
#pragma once

#include <string>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright {

struct Recomputation {
  std::vector<bool> runs_again;       // by node of the forward graph
  std::vector<bool> made_again;       // by value of it: the backward uses what was made again
  std::vector<NodeId> begin;          // by node of these blocks: the one of its block whose backward comes first, before which it runs again; else kNoId

  [[nodiscard]] bool is_empty() const { return begin.empty(); }
  [[nodiscard]] bool runs(NodeId node) const { return !is_empty() && runs_again[node]; }
  [[nodiscard]] bool makes(ValueId value) const { return !is_empty() && made_again[value]; }
};

// The blocks of a model that save something of their own for their backward, in its order. None for a model without a backward.
MESHWRIGHT_API std::vector<std::string> recomputable_blocks(const ModelAnalysis& model);

// Of these blocks. Errors: bad_input for a name that is none of recomputable_blocks.
MESHWRIGHT_API Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& blocks);

}  // namespace meshwright
