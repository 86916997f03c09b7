// How the program says that it failed.
#pragma once

#include <string>

#include "meshwright/result.h"

namespace meshwright::host {

// The message as it is shown: control characters are escaped, so that no name of a model or file forges a line or moves
// the cursor; of a long line the middle is left out. Six lines at most, and for "no plan fits" one for each mesh.
std::string shown_message(const Error& error);

// Writes "meshwright: error: MESSAGE" to standard error and returns the exit code that belongs to the error's code.
int report_error(const Error& error);

}  // namespace meshwright::host
