#include "open_dimensions.h"

#include <charconv>

namespace meshwright {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

Result<OpenDimensions> open_dimensions(const Config& model) {
  OpenDimensions open;
  if (model.integer("batch") > 0) open.batch = model.integer("batch");
  std::string_view rest = trimmed(model.text("dimensions"));
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    const std::string_view entry = trimmed(rest.substr(0, end));
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    const std::size_t equals = entry.rfind('=');
    const std::string_view name = trimmed(entry.substr(0, equals));
    const std::string_view number = equals == std::string_view::npos ? "" : trimmed(entry.substr(equals + 1));
    std::int64_t size = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), size);
    if (name.empty() || number.empty() || parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() ||
        size < 1) {
      return bad_input("\"dimensions\" in [model]: \"" + std::string(entry) +
                       "\" is no name=size; write \"sequence=128, patches=49\"");
    }
    if (!open.named.emplace(name, size).second)
      return bad_input("\"dimensions\" in [model] gives \"" + std::string(name) + "\" two sizes");
  }
  return open;
}

}  // namespace meshwright
