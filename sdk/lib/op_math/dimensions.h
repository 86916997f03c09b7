// Which dimensions of a tensor an op's attribute names, and the shape that is left where they are reduced to 1.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "meshwright/graph.h"

namespace meshwright {

// The attribute as a list, which it need not be; empty if it is absent.
inline std::vector<std::int64_t> list_of(const Node& node, const std::string& attribute) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return {};
  const auto* single = std::get_if<std::int64_t>(&found->second);
  return single ? std::vector<std::int64_t>{*single} : node.integers(attribute);
}

// By dimension of a tensor of this rank, whether `dims` names it, counting from the end where negative. A tensor of rank 0 has
// none, though its ops may name one.
inline std::vector<bool> named_dimensions(const std::vector<std::int64_t>& dims, std::int64_t rank) {
  std::vector<bool> named(static_cast<std::size_t>(rank), false);
  for (const std::int64_t dim : dims) {
    const std::int64_t at = dim < 0 ? dim + rank : dim;
    if (at >= 0 && at < rank) named[static_cast<std::size_t>(at)] = true;
  }
  return named;
}

// Of an op that reduces: all dimensions where it names none.
inline std::vector<bool> named_or_all_dimensions(const std::vector<std::int64_t>& dims, std::int64_t rank) {
  return dims.empty() ? std::vector<bool>(static_cast<std::size_t>(rank), true) : named_dimensions(dims, rank);
}

// The shape with 1 in place of the dimensions that are reduced.
inline std::vector<std::int64_t> shape_with_ones(std::vector<std::int64_t> shape, const std::vector<bool>& reduced) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (reduced[i]) shape[i] = 1;
  }
  return shape;
}

}  // namespace meshwright
