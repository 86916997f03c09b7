// What is not kept for the backward: the forward of whole blocks (Chen et al. 2016, arXiv 1604.06174) or of some of their ops (selective recomputation, Korthikanti
// et al. 2022, arXiv 2205.05198), which runs again before the backward that needs it.
//
// A block is what repeats in a model (block_of in gather_units.h). What crosses its border is kept, and so is what an op that runs again takes of others that
// don't. Of the ops that are named runs again what the backward asks for, and what that is made of: not the last product of a block, whose result nothing in it
// saves. A view is made again with what it shows. Ops that hand each other what they make run again together, where the backward first asks for something of it.
//
// An op can also take an operand for its backward that is converted again ("linear_4:0": operand 0 of linear_4), as Megatron gathers a sequence-sharded input again in
// place of keeping it whole (Korthikanti et al. 2022): kept is what the maker of the value yields, in the layout in which it does, and right before the op's backward
// runs what the forward converted it by. Where somebody keeps the converted copy, and where nothing was converted, that is what is taken. An operand that is a view
// made in the op's block is made again with what converts what it shows.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright {

// An operand of a node, by its port. Its name is that of the node with the port behind it: "linear_4:0".
using NodeOperand = std::pair<NodeId, std::uint32_t>;

struct Recomputation {
  std::vector<bool> runs_again;  // by node of the forward graph
  std::vector<bool> made_again;  // by value of it: the backward uses what was made again
  std::vector<NodeId> begin;     // by node that runs again: the one before whose backward it does; else kNoId
  // Operands that are converted again before their node's backward: of nodes that do not run again, what is not made again. And the values that these are.
  std::set<NodeOperand> converted_again;
  std::set<ValueId> values_converted;

  [[nodiscard]] bool is_empty() const { return begin.empty(); }
  [[nodiscard]] bool runs(NodeId node) const { return !is_empty() && runs_again[node]; }
  [[nodiscard]] bool makes(ValueId value) const { return !is_empty() && made_again[value]; }
  [[nodiscard]] bool converts(NodeId node, std::uint32_t port) const { return converted_again.contains({node, port}); }
  // Those that run again before this one's backward, ascending.
  [[nodiscard]] MESHWRIGHT_API std::vector<NodeId> nodes_before(NodeId first) const;
};

// By value, the nodes and ports whose backward takes it as it was in the forward: of those that do not run again, operands that are not converted again. Empty if
// nothing is.
using Keepers = std::map<ValueId, std::vector<NodeOperand>>;
MESHWRIGHT_API Keepers keepers(const ModelAnalysis& model, const Recomputation& recomputation);

struct RecomputableBlock {
  std::string name;
  std::vector<NodeId> nodes;  // its ops with a gradient, views among them, ascending
};

// The blocks of a model that save something of their own for their backward, in its order. None for a model without a backward.
MESHWRIGHT_API std::vector<RecomputableBlock> blocks_of(const ModelAnalysis& model);
MESHWRIGHT_API std::vector<std::string> recomputable_blocks(const ModelAnalysis& model);

// The operands that could be converted again: their op has a gradient, stands in a block and takes them for its backward, and they are values with a gradient and no
// parameters (nor views of one, which ParameterStrategy::regather is for).
MESHWRIGHT_API std::set<NodeOperand> convertible_operands(const ModelAnalysis& model);

MESHWRIGHT_API std::string operand_name(const Graph& graph, const NodeOperand& operand);

// By node of the forward graph, whether one of these names of blocks and ops stands for it; and the operands that they name. Errors: those of `recomputation`.
MESHWRIGHT_API Result<std::vector<bool>> ops_named(const ModelAnalysis& model, const std::vector<std::string>& names);
MESHWRIGHT_API Result<std::set<NodeOperand>> operands_named(const ModelAnalysis& model, const std::vector<std::string>& names);

// The names of ops: that of a block where all that could run again of it is among them, else their own, in the model's order; behind them those of operands.
MESHWRIGHT_API std::vector<std::string> recomputed_names(const ModelAnalysis& model, const std::vector<bool>& ops, const std::set<NodeOperand>& operands = {});

// What an answer says of its plan's: "The forward of 2 of 12 blocks and 40 ops (mul 24, layer_norm 16) runs again for the backward, and 3 inputs are converted again".
// "" for none.
MESHWRIGHT_API std::string recomputed_text(const ModelAnalysis& model, const std::vector<std::string>& names);

// Of these blocks, and of these ops and operands, by their nodes' names. Errors: bad_input for a name that is neither a block nor an op of one, for a view, and for an
// operand that could not be converted again.
MESHWRIGHT_API Result<Recomputation> recomputation(const ModelAnalysis& model, const std::vector<std::string>& names);

}  // namespace meshwright
