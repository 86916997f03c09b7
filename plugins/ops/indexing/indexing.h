// Elements picked by position, and what is added at positions. Private to the family.
//
// Three pairs of ops: index and index_put, gather and scatter_add, index_select and index_add. The first of a pair
// reads a table (operand 0) at positions (the operands after it); the second adds its last operand to the table at
// them, and is the first's gradient.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline bool adds(const Node& node) { return node.op == "aten.index_put" || node.op.ends_with("_add"); }
// index_put without accumulate writes over what stands there.
inline bool overwrites(const Node& node) { return node.op == "aten.index_put" && !node.boolean("accumulate", false); }
inline bool is_index(const Node& node) { return node.op == "aten.index.Tensor" || node.op == "aten.index_put"; }
inline bool is_gather(const Node& node) { return node.op == "aten.gather" || node.op == "aten.scatter_add"; }

// How many operands are positions: all but the table and what is added to it.
inline std::size_t position_operands(const Node& node) { return node.operands.size() - (adds(node) ? 2 : 1); }

// x[i, :, j] of aten.index and aten.index_put: the indices broadcast against each other, and their dimensions stand
// where the first index is, or in front if the indexed dimensions are not neighbours.
struct Indices {
  std::vector<std::size_t> operand;  // by dimension of the table: the operand that indexes it, or 0
  std::vector<std::int64_t> shape;   // of the indices, broadcast
  std::size_t front = 0;             // where their dimensions stand in what is picked
};
Indices indices_of(const OpCall& call);

// The shape of what is picked from the table, or put into it once it is broadcast.
std::vector<std::int64_t> picked_shape(const OpCall& call);

// Errors: bad_input: positions given as a mask, but for one that puts a single value; values that do not broadcast.
Status check_indexing(const OpCall& call);

// index_put of one value under a mask, which stands for the leading dimensions of the table.
bool puts_under_mask(const OpCall& call);
Result<Rule> masked_rule(const OpCall& call);
Result<std::vector<Tensor>> masked_evaluate(const OpCall& call, std::span<const Tensor* const> operands);
Result<std::vector<ValueId>> masked_gradient(const GradientCall& call);

Result<std::vector<ValueId>> indexing_gradient(const GradientCall& call);
Result<std::vector<Tensor>> indexing_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
