// What the user fixes, in [pins] of the configuration; the rest is optimized around it.
//
//   "wte.weight" = "S1R"       a parameter or another value: the layout in which its users compute with it
//   "addmm_3" = "n, repeat"    a node: what each mesh axis does there, as `explain` and the plan file write it; * is anything
//
// Pins of what runs again for the backward stand beside them (recompute_pins.h).
#pragma once

#include <span>
#include <string>

#include "meshwright/known_strategies.h"
#include "meshwright/strategy.h"

namespace meshwright {

struct Pin {
  std::string name;
  std::string text;
  std::string where;  // in the configuration
};

// Whether it is of what runs again (recompute_pins.h), and not of a layout.
[[nodiscard]] inline bool is_of_recomputation(const Pin& pin) { return pin.text == "recompute" || pin.text == "keep"; }

// Forbids the strategies that the pins of layouts exclude. Errors: bad_input for a name that nothing has, with the nearest known
// one, or a value that has no gradient (each use gets its own copy); infeasible where nothing of that name can be as the text
// says on this mesh, with what it can be.
Status apply_pins(std::span<const Pin> pins, const ProblemInput& input, Problem& problem);

// A problem under pins. Errors: those of build_problem and of apply_pins.
Result<Problem> build_pinned(const ProblemInput& input, std::span<const Pin> pins);
Result<Problem> build_pinned(const ProblemInput& input, std::span<const Pin> pins, KnownStrategies& known);

// A pin, as messages name it: "addmm_3" = "n, repeat".
std::string to_string(const Pin& pin);

}  // namespace meshwright
