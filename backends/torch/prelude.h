// The part of an emitted program that is the same for all plans: Python definitions (backends/torch/prelude), of which a
// program gets those that it uses.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace meshwright::torch {

// The names of all definitions.
std::set<std::string> prelude_names();

// The definitions that `body` mentions, and those that these mention, in the prelude's order; without imports.
std::string prelude_for(std::string_view body);

}  // namespace meshwright::torch
