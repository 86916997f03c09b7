// A layer of experts as one op (mixture of experts): each token goes through `k` of the `e` experts, and their results
// are added, weighted by the router. What a model writes as sort, histc, grouped matmul and index is this; op by op it
// could only be replicated (DESIGN §2).
//
//   meshwright.experts   hidden [t, h], indices [t, k], weights [t, k], gate_up [e, 2i, h], down [e, h, i]
//                        -> [t, h], and of each token's copies: rows [t, k, h], inner [t, k, 2i], gate [t, k, i],
//                           product [t, k, i], outputs [t, k, h]
//     rows[t, k] = hidden[t],  inner = gate_up[x] · rows,  gate = act(inner_gate),  product = gate · inner_up,
//     outputs = down[x] · product,  out[t] = Σ_k weights[t, k] · outputs[t, k],  x = indices[t, k]
//
// With in_first gate_up is [e, h, 2i] and down [e, i, h]; with interleaved the gate and the other half take turns along 2i; a
// gate_up_bias [e, 2i] is added to inner. activation "clamped" (gpt-oss): gate = g · sigmoid(alpha · g) of g = min(inner_gate,
// limit), product = gate · (clamp(inner_up, -limit, limit) + 1).
//
// All but the first are what PyTorch's autograd saves of it: the rank's own, for the backward alone (TensorRule::own).
//
// Four ways to shard it, any of them on any mesh axis:
//   t    tokens; every rank has all experts
//   e    experts; every rank has all tokens and computes what its experts give: a partial sum
//   i    the inner dimension of every expert (expert-tensor parallelism): a partial sum
//   t>e  tokens and experts on the same axis: tokens travel to their experts and back (expert parallelism). Buffers
//        have a fixed capacity for each pair of ranks; without a capacity factor it is the most that can come
//        (dropless). Rows beyond the capacity are an error, never dropped.
#pragma once

#include <span>
#include <vector>

#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "numbers.h"

namespace meshwright {

inline constexpr const char* kExperts = "meshwright.experts";
inline constexpr const char* kExpertsBackward = "meshwright.experts_backward";

struct ExpertSettings {
  double capacity_factor = 0;
  double imbalance = 1.2;
};

// experts.cpp: what travels in this call, all but the factors of its rule.
Exchange exchange_of(const OpCall& call);

// composite.cpp: the routing and grouped matmuls that torch.export leaves of an expert layer of transformers.
FoundComposites find_expert_layers(const Graph& graph, const ExpertSettings& settings);

// evaluate.cpp
Result<std::vector<Tensor>> evaluate_experts(const OpCall& call, std::span<const Tensor* const> operands);

// What experts do to single rows, for whoever has the rows: outputs[r] = expert(row_experts[r]) of rows[r]. Rows whose
// expert is another rank's, or is -1, give zeros.
struct ExpertRows {
  const OpCall& call;
  const Tensor& rows;         // [.., h]
  const Tensor& row_experts;  // [..], int64, numbers of the whole layer
  const Tensor& gate_up;
  const Tensor& down;
  const Tensor* gate_up_bias;  // null: none
};
struct ExpertRowValues {
  Numbers inner, gate, product, outputs;
};
ExpertRowValues expert_rows(const ExpertRows& in);
struct ExpertRowGradients {
  Numbers rows, row_weights, gate_up, down, gate_up_bias;
};
// `row_gradients`: of the weighted results, [.., h].
struct ExpertRowsSaved {
  const Tensor &inner, &gate, &product, &outputs;
};
ExpertRowGradients expert_row_gradients(const ExpertRows& in, const ExpertRowsSaved& saved, const Tensor& row_weights,
                                        const Tensor& row_gradients);

// exchange.cpp: the steps of t>e. False: no axis exchanges.
bool emit_exchange(const LocalCall& call);
bool is_exchange_step(const std::string& op);
OpCost exchange_step_cost(const OpCall& call);
Result<std::vector<Tensor>> evaluate_exchange_step(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
