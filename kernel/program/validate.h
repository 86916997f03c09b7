// What holds of a program between its steps (program.h). Private to the kernel.
#pragma once

#include "meshwright/program.h"

namespace meshwright {

// As `validate`, but with the microbatches one after the other, which is sooner done than many in flight: as long as nothing is freed, it does not matter in which order they are.
Status validate_unfinished(const Program& program);

}  // namespace meshwright
