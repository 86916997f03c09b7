// What the choices of a plan imply: which tensors change their layout where, and which values without a gradient are made
// how. Private to the kernel.
#pragma once

#include <functional>

#include "meshwright/plan.h"
#include "strategy/backward_axes.h"

namespace meshwright {

// How the node that makes a constant lies for those who want it in `wanted`; null: nobody knows.
using FindConstant = std::function<const CallLayouts*(ValueId value, const Layout& wanted)>;

struct Outline {
  std::vector<PlannedConversion> conversions;  // without moves; of equal ones of a value the first
  std::vector<PlannedConstant> constants;
};

// Of a plan whose variables are complete; its conversions and constants are not read. `needs` says for each variable what the
// backward of its node needs, which is nothing for other variables. Errors: bad_input, naming a constant that nobody knows how
// to make.
Result<Outline> outline_of(const Plan& plan, const std::vector<BackwardNeeds>& needs, const FindConstant& find_constant);

}  // namespace meshwright
