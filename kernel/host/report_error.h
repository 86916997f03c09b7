// How the program says that it failed.
#pragma once

#include "meshwright/result.h"

namespace meshwright::host {

// Writes "meshwright: error: MESSAGE" to standard error and returns the exit code that belongs to the error's code.
int report_error(const Error& error);

}  // namespace meshwright::host
