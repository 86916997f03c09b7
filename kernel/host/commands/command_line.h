// The program's command line: parses it, and runs the command that it names.
#pragma once

namespace meshwright::host {

// Returns the exit code (DESIGN §4). Wrong usage is reported to standard error and gives 2.
int run_command_line(int argc, const char* const* argv);

}  // namespace meshwright::host
