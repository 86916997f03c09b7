#include "report/report_error.h"

#include <algorithm>
#include <cstdio>

#include "foreign_text.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kMostLines = 6, kMostBytesOfLine = 800;
constexpr std::size_t kMostLinesOfRefusal = 60;  // a line for each mesh, then what would fit

}  // namespace

std::string shown_message(const Error& error) {
  const std::string& message = error.message;
  const std::size_t most = error.code == ErrorCode::infeasible ? kMostLinesOfRefusal : kMostLines;
  std::string shown;
  std::size_t lines = 0, at = 0;
  for (; at <= message.size() && lines < most; ++lines) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const bool more = lines + 1 == most && end < message.size();
    shown += (lines > 0 ? "\n" : "") +
             (more ? "  ..." : message_line(std::string_view(message).substr(at, end - at), kMostBytesOfLine));
    at = end + 1;
  }
  return shown;
}

int report_error(const Error& error) {
  std::fprintf(stderr, "meshwright: error: %s\n", shown_message(error).c_str());
  return static_cast<int>(error.code);
}

}  // namespace meshwright::host
