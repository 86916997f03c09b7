// Seconds and bytes of the strategies of each kind of variable (docs/cost-model.md). Private to the kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

// What pricing needs to know of the tensors at a node.
struct TensorInfo {
  const AtomShape* shape = nullptr;
  DType dtype = DType::float32;
  bool gradient = false;   // differentiable
  bool parameter = false;  // comes directly from a parameter, whose own variable counts its memory
};

void price_node(const AtomizedNode& node, const Mesh& mesh, const CostProfile& profile,
                const std::vector<TensorInfo>& operands, const std::vector<TensorInfo>& results, Strategy& strategy);

// Sums `uses` gradients in the layout in which the fork keeps them.
void price_fork(const AtomShape& shape, DType dtype, std::size_t uses, const Mesh& mesh, const CostProfile& profile,
                Strategy& strategy);

// But for the gather of what the update changed, where the value is held whole: EdgeTables knows its price.
void price_parameter(const AtomShape& shape, DType dtype, const TrainingSettings& training, const Mesh& mesh,
                     const CostProfile& profile, Strategy& strategy);

}  // namespace meshwright
