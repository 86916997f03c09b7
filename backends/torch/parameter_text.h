// The expression that makes a parameter (prelude/parameters.py, `parameter`).
#pragma once

#include <string>

#include "forward.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/training.h"

namespace meshwright::torch {

// ", dtype=torch.bfloat16"; empty for float32.
std::string dtype_argument(const TensorType& type);

// The dtype in which the optimizer keeps its own copy of a parameter; none where that is the parameter itself.
std::optional<DType> master_dtype(const TensorType& parameter, const TrainingSettings& training);

// Of a parameter that is trained: how it is kept, computed with and reduced. Errors: bad_input, settings that no emitted
// program honours.
Result<std::string> parameter_text(const ForwardProgram& forward, std::uint32_t index, const TrainingSettings& training);

}  // namespace meshwright::torch
