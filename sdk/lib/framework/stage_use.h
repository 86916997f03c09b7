// What the axes of a stage's mesh are used for, in the words of frameworks that take degrees of parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/plan.h"

namespace meshwright::framework {

enum class AxisRole : std::uint8_t {
  data,     // shards the batch
  tensor,   // shards weights while they are computed with
  context,  // shards another dimension of what a whole weight is multiplied with: the sequence
  idle,     // all its devices do the same
};

// Degrees are products of the sizes of axes. An axis has the role that it has in most of the computing of ops with weights; a plan can use it otherwise in others.
struct StageUse {
  std::int64_t data = 1, tensor = 1, context = 1, idle = 1;
  // In ops with experts axes can do something else: experts lie over them, or each expert's weights are in shards over them.
  std::int64_t experts = 1, expert_tensor = 1;
  std::int64_t expert_data = 1;    // of experts: axes of data, whose tokens travel to their experts
  std::int64_t experts_apart = 1;  // of both: axes that are neither of tensor in other ops nor in expert_data
  std::vector<AxisRole> roles;           // by axis of the mesh
  bool sequence_parallel = false;        // what norms take is cut over tensor's axes
  double seconds = 0;                    // of a microbatch, forward and backward
  double weight_seconds = 0;             // those of ops with weights
  double mixed_seconds = 0;              // and of those among them in which some axis has another role

  [[nodiscard]] std::int64_t devices() const { return data * tensor * context * idle; }
  [[nodiscard]] bool same_degrees(const StageUse& other) const;
};

StageUse use_of_stage(const Plan& plan);

// By value of a graph, whether it is a parameter of two dimensions and more, or made of one alone: transposed, cut, of another type.
std::vector<bool> weights_of(const Graph& graph);

// Whether the op chooses among experts (Exchange in rule.h).
bool has_experts(const Plan& plan, NodeId node);

}  // namespace meshwright::framework
