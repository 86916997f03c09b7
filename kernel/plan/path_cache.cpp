#include "plan/path_cache.h"

#include "strategy/edge_tables.h"

namespace meshwright {

Result<const ConversionPath*> PathCache::find(ValueId value, std::int64_t element_bytes, bool packed, const Layout& from,
                                               const Layout& to) {
  static const ConversionPath kNothing;
  if (from == to) return &kNothing;
  std::string key = conversion_class(input_.atoms.values[value], element_bytes);
  const auto [found, inserted] = paths_.try_emplace({std::move(key), packed, from, to});
  if (inserted) {
    Result<ConversionPath> path = input_.conversions.find(problem(value, element_bytes, packed), from, to);
    if (!path) return path.error();
    found->second = std::move(*path);
  }
  return &found->second;
}

}  // namespace meshwright
