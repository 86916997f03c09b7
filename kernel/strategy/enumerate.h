// Enumerates the strategies of each kind of variable, without prices. Private to the kernel.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

// Calls `visit` with every way to pick one of `options` for each axis, the last axis fastest.
void for_each_combination(std::size_t options, std::size_t axes,
                          const std::function<void(const std::vector<std::size_t>&)>& visit);

// The choices that one axis has at an op, whatever the others do. `operand_gradients`: which operands may be partial
// under a linear group.
std::vector<AxisChoice> axis_choices(const AtomizedNode& node, const std::vector<bool>& operand_gradients);

// The layouts that follow from the choices; nothing if one does not fit its tensor.
std::optional<CallLayouts> derive_layouts(const AtomizedNode& node, const Mesh& mesh, const std::vector<const AtomShape*>& operands,
                                        const std::vector<const AtomShape*>& results,
                                        const std::vector<AxisChoice>& axes);

// The layout in which operand `i` is handed over: an addend under a sharded sum is added on one rank only.
Layout handed_layout(const AtomizedNode& node, const CallLayouts& call, std::size_t i);

std::vector<Strategy> enumerate_fork(const AtomShape& shape, const Mesh& mesh);
std::vector<Strategy> enumerate_output(const AtomShape& shape, const Mesh& mesh);
std::vector<Strategy> enumerate_parameter(const AtomShape& shape, const Mesh& mesh, const TrainingSettings& training,
                                          const StrategyFilter& filter);

}  // namespace meshwright
