// The backward in two parts, where a schedule wants it. Private to the kernel.
#pragma once

#include "meshwright/export.h"
#include "meshwright/program.h"

namespace meshwright {

// Of a lowered program, before its passes: the first part is what the gradients that go to other stages are made of, instruction by instruction, with all
// that is received; the second is the rest of the backward, in its order. A stage that sends no gradient, which is the first one, computes all in the second.
MESHWRIGHT_API void split_backward(Program& program);

}  // namespace meshwright
