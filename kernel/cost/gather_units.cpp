#include "meshwright/gather_units.h"

#include <algorithm>

namespace meshwright {

std::string block_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (begin > 0 && !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return "";
}

std::vector<std::uint32_t> gather_units(const std::vector<NamedBytes>& parameters, std::int64_t bucket_bytes) {
  std::vector<std::uint32_t> units;
  std::uint32_t unit = 0;
  std::int64_t filled = 0;
  std::string block;
  for (const NamedBytes& parameter : parameters) {
    std::string here = block_of(parameter.name);
    if (!units.empty() && (here != block || filled + parameter.bytes > bucket_bytes)) ++unit, filled = 0;
    block = std::move(here);
    filled += parameter.bytes;
    units.push_back(unit);
  }
  return units;
}

}  // namespace meshwright
