// Reads the file that `plan -o` writes (docs/plan-format.md) back into a Plan, so that writing it again gives the same
// bytes.
#pragma once

#include <string>
#include <string_view>

#include "files/json_place.h"
#include "meshwright/plan.h"
#include "meshwright/result.h"

namespace meshwright::host {

// The plan in `path`, with its model analyzed by the families of `ops`. All that it says is checked: whoever is handed the plan
// may take it for one that was made. Errors: bad_input, "FILE: PLACE: what is wrong".
Result<Plan> read_plan(const std::string& path, const OpTable& ops);

// The same of a plan inside of a document: one of a whole model, or of a stage of a pipeline. What is wrong the place says.
Plan read_plan_at(const JsonPlace& place, const OpTable& ops);
// The same, which is no stage of several.
Plan read_whole_plan_at(const JsonPlace& place, const OpTable& ops);

// What a file of plans holds. Errors: bad_input.
Result<std::string> read_plan_text(const std::string& path);

// The same from the file's text; `name` is what messages call the file.
Result<Plan> parse_plan(std::string_view text, const std::string& name, const OpTable& ops);

}  // namespace meshwright::host
