// What the ranks give each other, as it lies in frames.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

inline constexpr std::size_t kMostOfName = 32;

// What a rank gives, with a name that is the same on all: a length, the name, and the rest.
inline std::string named(std::string_view name, std::string_view bytes) {
  std::string content(1, static_cast<char>(name.size()));
  return content.append(name).append(bytes);
}

struct Named {
  std::string_view name, bytes;
};
// Nothing: it is none.
inline std::optional<Named> parse_named(std::string_view content) {
  if (content.empty()) return std::nullopt;
  const auto length = static_cast<unsigned char>(content.front());
  if (length > kMostOfName || content.size() < 1U + length) return std::nullopt;
  return Named{content.substr(1, length), content.substr(1U + length)};
}

// Of each of several a length and its bytes.
inline void append_part(std::string& content, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  content.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes);
}

// Nothing: they are not so many.
inline std::optional<std::vector<std::string>> parse_parts(std::string_view content, std::size_t count) {
  std::vector<std::string> parts;
  while (!content.empty() && parts.size() < count) {
    std::uint64_t size = 0;
    if (content.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, content.data(), sizeof size);
    content.remove_prefix(sizeof size);
    if (size > content.size()) return std::nullopt;
    parts.emplace_back(content.substr(0, size));
    content.remove_prefix(size);
  }
  if (!content.empty() || parts.size() != count) return std::nullopt;
  return parts;
}

}  // namespace meshwright
