#include "meshwright/gather_units.h"

#include <algorithm>

namespace meshwright {

namespace {

bool is_number(std::string_view part) { return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos; }

// "encoder_layer_0", "block_3": numbered alike, as torchvision names the layers of its ViT. Other words are those of ops within a block ("linear_1"), or of what blocks are
// in ("encoder_1").
bool is_numbered_layer(std::string_view part) {
  const std::size_t bar = part.rfind('_');
  if (bar == std::string_view::npos || !is_number(part.substr(bar + 1))) return false;
  const std::string_view word = part.substr(0, bar);
  return word.ends_with("layer") || word.ends_with("block");
}

std::string_view part_from(std::string_view name, std::size_t begin) { return begin < name.size() ? name.substr(begin, name.find('.', begin) - begin) : ""; }

}  // namespace

std::string block_of(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::string_view part = part_from(name, begin);
    const std::size_t end = begin + part.size();
    // Blocks of a stage are numbered within it: "layer_1.0".
    const bool is_layer = is_numbered_layer(part) && !is_number(part_from(name, end + 1));
    if ((begin > 0 && is_number(part)) || is_layer) return std::string(name.substr(0, end));
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
