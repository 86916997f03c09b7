#include <cstdio>
#include <exception>

#include "commands/command_line.h"
#include "report/report_error.h"

int main(int argc, char** argv) {
  try {
    const int exit_code = meshwright::host::run_command_line(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
    std::fprintf(stderr, "meshwright: error: the results can't be written to standard output\n");
    return exit_code == 0 ? 2 : exit_code;
  } catch (const std::exception& error) {
    meshwright::host::report_error(meshwright::internal_error(std::string("our own fault, please report it: ") + error.what()));
  } catch (...) {
    std::fprintf(stderr, "meshwright: error: our own fault, please report it: an unknown exception\n");
  }
  return 1;
}
