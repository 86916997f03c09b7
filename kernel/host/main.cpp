#include <cstdio>
#include <exception>
#include <limits>

#ifdef MESHWRIGHT_MIMALLOC
#include <mimalloc.h>
#elif defined(__GLIBC__)
#include <malloc.h>
#endif

#include "commands/command_line.h"
#include "report/report_error.h"

namespace {

// Plans are simulated by the dozen, and each one's program takes and gives back megabytes: those are kept for the next one.
void keep_freed_memory() {
#ifdef MESHWRIGHT_MIMALLOC
#if MI_MALLOC_VERSION < 210  // which has other options
  mi_option_disable(mi_option_allow_decommit);
#endif
#elif defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
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
