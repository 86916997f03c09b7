#include "report_error.h"

#include <cstdio>

namespace meshwright::host {

int report_error(const Error& error) {
  std::fprintf(stderr, "meshwright: error: %s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

}  // namespace meshwright::host
