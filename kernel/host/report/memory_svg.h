#pragma once

#include <string>

#include "meshwright/memory_profile.h"

namespace meshwright::host {

// The curve as a drawing that stands alone (SVG 1.1): bytes by kind, stacked, over the step's instructions, with the
// peak and its place. The same profile gives the same bytes; colours suit a light and a dark page.
std::string memory_svg(const Program& program, const MemoryProfile& profile);

}  // namespace meshwright::host
