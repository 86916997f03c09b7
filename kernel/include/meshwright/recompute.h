// What is not kept for the backward: the forward of whole blocks (Chen et al. 2016, arXiv 1604.06174) or of some of their ops (selective recomputation, Korthikanti
// et al. 2022, arXiv 2205.05198), which runs again before the backward that needs it.
//
// A block is what repeats in a model (block_of in gather_units.h). What crosses its border is kept, and so is what an op that runs again takes of others that
// don't. Of the ops that are named runs again what the backward asks for, and what that is made of: not the last product of a block, whose result nothing in it
// saves. A view is made again with what it shows. Ops that hand each other what they make run again together, where the backward first asks for something of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright {

struct Recomputation {
  std::vector<bool> runs_again;  // by node of the forward graph
  std::vector<bool> made_again;  // by value of it: the backward uses what was made again
  std::vector<NodeId> begin;     // by node that runs again: the one before whose backward it does; else kNoId

  [[nodiscard]] bool is_empty() const { return begin.empty(); }
  [[nodiscard]] bool runs(NodeId node) const { return !is_empty() && runs_again[node]; }
  [[nodiscard]] bool makes(ValueId value) const { return !is_empty() && made_again[value]; }
  // Those that run again before this one's backward, ascending.
  [[nodiscard]] MESHWRIGHT_API std::vector<NodeId> nodes_before(NodeId first) const;
};

// By value, the nodes and ports whose backward takes it as it was in the forward: of those that do not run again. Empty if nothing does.
using Keepers = std::map<ValueId, std::vector<std::pair<NodeId, std::uint32_t>>>;
MESHWRIGHT_API Keepers keepers(const ModelAnalysis& model, const Recomputation& recomputation);

struct RecomputableBlock {
  std::string name;
  std::vector<NodeId> nodes;  // its ops with a gradient, views among them, ascending
};

// The blocks of a model that save something of their own for their backward, in its order. None for a model without a backward.
MESHWRIGHT_API std::vector<RecomputableBlock> blocks_of(const ModelAnalysis& model);
MESHWRIGHT_API std::vector<std::string> recomputable_blocks(const ModelAnalysis& model);

// By node of the forward graph, whether one of these names of blocks and ops stands for it. Errors: those of `recomputation`.
MESHWRIGHT_API Result<std::vector<bool>> ops_named(const ModelAnalysis& model, const std::vector<std::string>& names);

// The names of ops: that of a block where all that could run again of it is among them, else their own, in the model's order.
MESHWRIGHT_API std::vector<std::string> recomputed_names(const ModelAnalysis& model, const std::vector<bool>& ops);

// What an answer says of its plan's: "2 of 12 blocks and 40 ops (mul 24, layer_norm 16)". "" for none.
MESHWRIGHT_API std::string recomputed_text(const ModelAnalysis& model, const std::vector<std::string>& names);

// Of these blocks, and of these ops, by their nodes' names. Errors: bad_input for a name that is neither a block nor an op of one, or a view.
MESHWRIGHT_API Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& names);

}  // namespace meshwright
