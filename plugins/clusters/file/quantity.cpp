#include "quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace meshwright {

std::optional<double> parse_quantity(std::string_view text, std::string_view unit) {
  static constexpr std::array<std::pair<std::string_view, double>, 14> kPrefixes = {{
      {"", 1.0}, {"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
      {"P", 1e15}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0}}};
  double number = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string_view rest(after, static_cast<std::size_t>(text.data() + text.size() - after));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (!rest.ends_with(unit)) return std::nullopt;
  rest.remove_suffix(unit.size());
  for (const auto& [prefix, scale] : kPrefixes) {
    if (rest == prefix && std::isfinite(number * scale)) return number * scale;
  }
  return std::nullopt;
}

}  // namespace meshwright
