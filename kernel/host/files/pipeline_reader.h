// Reads the file of a plan of several stages (docs/plan-format.md) back, so that writing it again gives the same bytes.
#pragma once

#include <string>
#include <variant>

#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"

namespace meshwright::host {

// A plan's file of either kind. All that it says is checked: the stages of a pipeline are those into which its boundaries cut its model. Errors: bad_input, "FILE: PLACE:
// what is wrong".
Result<std::variant<Plan, PipelinePlan>> read_any_plan(const std::string& path, const OpTable& ops);

// The same from the file's text; `name` is what messages call the file.
Result<std::variant<Plan, PipelinePlan>> parse_any_plan(std::string_view text, const std::string& name, const OpTable& ops);

}  // namespace meshwright::host
