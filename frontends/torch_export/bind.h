// Gives sizes to the dimensions that an exported program leaves open (dynamic_shapes), before it is translated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exported_program.h"
#include "meshwright/frontend.h"
#include "meshwright/result.h"

namespace meshwright::torch_export {

// What sympy writes of an integer expression: "Mul(Integer(2), s17)", "2*s17 + 1", "FloorDiv(s0, 4)". Nothing if a
// symbol has no size, the text is no such expression, or a number leaves the range of 64 bits.
std::optional<std::int64_t> evaluate(std::string_view expression, const std::map<std::string, std::int64_t>& sizes);

// Replaces every open size, and every argument computed from sizes, by numbers, and drops the nodes that compute them.
// A dimension without a size in `open` has the one that the model was exported with, if the file says which, and that
// is logged as a warning. What depends on data stays open. Errors: bad_input: a name that no dimension has, a size
// outside of the range that the export allows.
Status bind_dimensions(ExportedProgram& program, const OpenDimensions& open);

}  // namespace meshwright::torch_export
