// Enumerates the strategies of each kind of variable, without prices. Private to the kernel.
#pragma once

#include <functional>
#include <vector>

#include "meshwright/strategy.h"

namespace meshwright {

// Calls `visit` with every way to pick one of `options` for each axis, the last axis fastest.
void for_each_combination(std::size_t options, std::size_t axes,
                          const std::function<void(const std::vector<std::size_t>&)>& visit);

std::vector<Strategy> enumerate_fork(const AtomShape& shape, const Mesh& mesh);
std::vector<Strategy> enumerate_output(const AtomShape& shape, const Mesh& mesh);
std::vector<Strategy> enumerate_parameter(const AtomShape& shape, const Mesh& mesh);

}  // namespace meshwright
