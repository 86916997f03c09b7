// The sizes that [model] gives to what a model file leaves open.
#pragma once

#include "meshwright/config.h"
#include "meshwright/frontend.h"

namespace meshwright {

// From `batch` and from `dimensions`, "sequence=128, patches=49". Errors: bad_input, quoting what is no name=size.
Result<OpenDimensions> open_dimensions(const Config& model);

}  // namespace meshwright
