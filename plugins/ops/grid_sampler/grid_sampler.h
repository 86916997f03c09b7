// An image read at the places of a grid: input n c h w, grid n p q 2 of places x, y in [-1, 1]. Private to the family.
//
//   meshwright.grid_sampler_backward_input(grad_output, grid) -> the gradient of input
//   meshwright.grid_sampler_backward_grid(grad_output, input, grid) -> the gradient of grid
// with the attributes of the forward.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kInputGradient = "meshwright.grid_sampler_backward_input";
inline constexpr const char* kGridGradient = "meshwright.grid_sampler_backward_grid";

Result<std::vector<Tensor>> grid_sampler_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
