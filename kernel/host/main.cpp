#include <cstdio>
#include <exception>

#include "command_line.h"

int main(int argc, char** argv) {
  try {
    return meshwright::host::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshwright: error: our own fault, please report it: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "meshwright: error: our own fault, please report it: an unknown exception\n");
  }
  return 1;
}
