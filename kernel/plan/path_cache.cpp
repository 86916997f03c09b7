#include "plan/path_cache.h"

namespace meshwright {

Result<const ConversionPath*> PathCache::find(ValueId value, bool packed, const Layout& from, const Layout& to) {
  static const ConversionPath kNothing;
  if (from == to) return &kNothing;
  const AtomShape& shape = input_.atoms.values[value];
  std::string key(name(input_.graph.type(value).dtype));
  for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
    key += (shape.paddable[atom] ? "~" : " ") + std::to_string(shape.sizes[atom]);
  }
  const auto [found, inserted] = paths_.try_emplace({std::move(key), packed, from, to});
  if (inserted) {
    Result<ConversionPath> path = input_.conversions.find(problem(value, packed), from, to);
    if (!path) return path.error();
    found->second = std::move(*path);
  }
  return &found->second;
}

}  // namespace meshwright
