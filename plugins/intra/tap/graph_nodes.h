// TAP's intermediate representation (TAP §4.2): the search problem without its auxiliary variables.
//
// A GraphNode is an op that computes with a weight of two dimensions or more in which it loses one of them: a linear layer, a
// convolution, an embedding, experts. All other variables are auxiliary (element-wise ops, views, norms, products of activations,
// forks, biases, outputs): no decision is made about them, they follow. Edges between GraphNodes are kept through them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright::tap {

struct GraphNode {
  std::uint32_t variable = 0;  // the op
  std::uint32_t port = 0;      // the operand that is its largest weight
  std::string scope;           // "encoder.block.3.layer.0.SelfAttention.q"; "" where the model has no names
  std::string kind;            // equal where a decision about one can be taken for the other: the op, its rule, its tensors
  std::vector<std::uint32_t> producers;  // GraphNodes, ascending
};

struct TrimmedGraph {
  std::vector<GraphNode> nodes;      // in topological order
  std::vector<std::uint32_t> owner;  // of each variable the GraphNode that it follows; kNoId where there is none at all
  std::vector<bool> is_weight;       // of each variable: a parameter, or a function of parameters alone
};

TrimmedGraph trim(const ProblemInput& input, const Problem& problem);

}  // namespace meshwright::tap
