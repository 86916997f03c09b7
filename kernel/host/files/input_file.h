// What every file that a command reads goes through first.
#pragma once

#include <string>

#include "meshwright/plan.h"
#include "meshwright/result.h"

namespace meshwright::host {

// Nothing but a regular file is read: a pipe may never begin, and a device never end. A file that is not there is left
// to whoever opens it. Errors: bad_input.
Status check_regular(const std::string& path);

// That the plan's model, if it is still there, is the one that was planned. Errors: bad_input; none if `allow_changed`.
Status check_planned_model(const Plan& plan, bool allow_changed);

}  // namespace meshwright::host
