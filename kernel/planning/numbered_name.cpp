#include "numbered_name.h"

#include <cctype>

namespace meshwright {

NumberedName numbered_name(const std::string& name) {
  NumberedName made;
  for (std::size_t i = 0; i < name.size();) {
    const bool starts = i == 0 || name[i - 1] == '.';
    std::size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
    if (starts && end > i && (end == name.size() || name[end] == '.') && made.number.empty()) {
      made.number = name.substr(i, end - i);
      made.pattern += '#';
      i = end;
    } else {
      made.pattern += name[i++];
    }
  }
  return made;
}

std::string range_text(const std::string& pattern, const std::string& first, const std::string& last, bool all) {
  const std::size_t at = pattern.find('#');
  return pattern.substr(0, at) + "{" + first + (all ? "-" : "..") + last + "}" + pattern.substr(at + 1);
}

}  // namespace meshwright
