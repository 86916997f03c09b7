// Cases of an op family, cases.txt in its folder: blocks of lines, separated by empty ones, in the form of
// the golden texts (sdk/golden), with small shapes:
//
//   op aten.layer_norm
//   attribute normalized_shape [4]
//   operand input float64[2, 3, 4] gradient
//   operand weight float64[4] gradient
//   operand positions int64[2, 3] below 7
//   result float64[2, 3, 4]
//
// "below N" draws integers from 0 to N-1 and floating point from 0 to N; "above N" floating point from N to N+1;
// "positive" draws from 0.5 to 1.5; "cyclic N" counts 0 to N-1, again and again; "special" as if nothing were said, with NaN and both infinities among the numbers;
// otherwise floating point is drawn from -1 to 1 and integers from {0, 1}. An attribute is a number, true or false, a list,
// or a text. A result of size 0 takes no part in the loss, nor does one that is "own" (TensorRule::own).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

struct OpCase {
  std::string file;   // where it was read from
  int number = 0;     // of the block
  Graph graph;        // sources, one node, its results; no loss yet
  std::vector<std::string> draws;  // by source: "below 7", "positive" or ""
  std::vector<ValueId> own;        // results that only the op's gradient may read
};

// Errors: bad_input, "FILE, block 3: what is wrong".
Result<std::vector<OpCase>> read_op_cases(const std::string& path);

// Sources drawn from `seed`, the same on every machine.
std::map<ValueId, Tensor> draw_sources(const OpCase& op_case, std::uint64_t seed);

// The case with a loss: Σ over results of Σ elements × weights. The weights are added to `sources`; those
// of a result without a gradient are a parameter, so that its value shows in their gradient.
Graph with_loss(const OpCase& op_case, std::map<ValueId, Tensor>& sources);

// The weights of a result in that loss; kNoId if it has none.
ValueId weights_of(const Graph& graph, ValueId result);

}  // namespace meshwright
