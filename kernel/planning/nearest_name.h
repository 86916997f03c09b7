// The known name that a mistyped one most likely meant. Used in every message that refuses an unknown name (a plugin,
// a configuration key, a section, an option's value), so that all of them read alike.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// The name with the smallest edit distance to `wanted`, the first in order among equals; empty if none is near (more
// than a third of the letters differ).
std::string nearest_name(std::string_view wanted, std::span<const std::string> known);

// What to append to a refusal: `; did you mean "x"?`, else `; known are "a", "b"`, else `; there are none`.
std::string suggest(std::string_view wanted, const std::vector<std::string>& known);

}  // namespace meshwright
