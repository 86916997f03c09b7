// Conversion paths, searched once for each pair of layouts and shape. Private to the kernel.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "meshwright/strategy.h"

namespace meshwright {

class PathCache {
 public:
  explicit PathCache(const ProblemInput& input) : input_(input) {}

  // The path of a value from one layout to another; empty if they are the same. The pointer stays valid.
  Result<const ConversionPath*> find(ValueId value, std::int64_t element_bytes, bool packed, const Layout& from,
                                     const Layout& to);

  [[nodiscard]] ConversionProblem problem(ValueId value, std::int64_t element_bytes, bool packed) const {
    return {input_.mesh, input_.atoms.values[value], input_.profile, element_bytes, packed};
  }

 private:
  const ProblemInput& input_;
  std::map<std::tuple<std::string, bool, Layout, Layout>, ConversionPath> paths_;
};

}  // namespace meshwright
