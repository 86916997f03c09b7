// The memory of a problem as terms with lifetimes over forward, backward and update (DESIGN §2, "Cost and memory").
// Private to the kernel.
//
// With N variables in the order of the forward, variable i computes at time i, its backward at 2N-1-i, and the update is
// at 2N. Each term belongs to one variable. What several share is divided among them: a value that three ops save in one
// layout is counted once, and where they save it in three layouts it is undercounted. So no plan holds less than its
// terms say, and a bound that is proven with them is valid; how much more it holds its program tells (memory_curve).
#pragma once

#include "meshwright/strategy.h"

namespace meshwright {

// Fills problem.space.memory; problem.variables and .edges are complete. Without a backward of the model every operand of a
// differentiable op counts as saved.
void add_memory_terms(const ProblemInput& input, Problem& problem);

}  // namespace meshwright
