// Names with commas between them, as configuration values have them: "consistency, dominance".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// Without the blanks around them. Never empty: what stands between two commas, or in an empty text, is a name too.
inline std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view name = text.substr(at, end - at);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    names.emplace_back(name);
    at = end + 1;
  }
  return names;
}

}  // namespace meshwright
