#include "numbered_name.h"

#include <cctype>
#include <vector>

namespace meshwright {

namespace {

constexpr std::size_t kMostDigits = 9, kMostRuns = 4;

}  // namespace

NumberedName numbered_name(const std::string& name) {
  NumberedName made;
  for (std::size_t i = 0; i < name.size();) {
    const bool starts = i == 0 || name[i - 1] == '.';
    std::size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (starts && end > i && end - i <= kMostDigits && (end == name.size() || name[end] == '.') && made.number.empty()) {
      made.number = name.substr(i, end - i);
      made.pattern += '#';
      i = end;
    } else {
      made.pattern += name[i++];
    }
  }
  return made;
}

std::string NameNumbers::text(const std::string& pattern) const {
  const std::size_t at = pattern.find('#');
  if (numbers_.empty() || at == std::string::npos) return pattern;
  struct Run {
    unsigned long first, last;
  };
  std::vector<Run> runs;
  for (const unsigned long number : numbers_) {
    if (!runs.empty() && runs.back().last + 1 == number) runs.back().last = number;
    else runs.push_back({number, number});
  }
  std::string listed;
  const std::size_t shown = runs.size() > kMostRuns ? 2 : runs.size();
  for (std::size_t i = 0; i < shown; ++i) {
    listed += (i == 0 ? "" : ",") + std::to_string(runs[i].first);
    if (runs[i].last > runs[i].first) listed += "-" + std::to_string(runs[i].last);
  }
  if (shown < runs.size()) listed += ".." + std::to_string(runs.back().last);
  if (numbers_.size() > 1) listed = "{" + listed + "}";
  return pattern.substr(0, at) + listed + pattern.substr(at + 1);
}

}  // namespace meshwright
