// What one instruction costs one rank, by the cost model (docs/cost-model.md) on the rank's own shapes.
#pragma once

#include "meshwright/backend.h"

namespace meshwright {

// Seconds of a finished program's instruction. Errors: bad_input for a kind that a finished program doesn't have.
Result<double> seconds_of(const BackendInput& input, const Instruction& instruction);

}  // namespace meshwright
