// How PyTorch lays a value out in memory, as far as the graph tells: values have no strides of their own (graph.h), but what
// is a view and what a copy depends on them. Strides are in elements; of a dimension of size 1 the stride means nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwright/graph.h"

namespace meshwright {

using Strides = std::vector<std::int64_t>;

// Follows views up to what made the storage, which is dense: row-major, but that elementwise ops and attention keep the
// order of their first operand's dimensions. Of an op that it does not know, it takes the result for row-major.
Strides memory_strides(const Graph& graph, ValueId value);

// The strides of a view of another shape with as many elements; nothing where PyTorch has to copy.
std::optional<Strides> viewed_strides(const std::vector<std::int64_t>& shape, const Strides& strides,
                                      const std::vector<std::int64_t>& viewed);

// Whether the elements lie row by row, one after the other.
bool is_row_major(const std::vector<std::int64_t>& shape, const Strides& strides);

// The value that this one is a view of; itself if it is none.
ValueId viewed_value(const Graph& graph, ValueId value);

}  // namespace meshwright
