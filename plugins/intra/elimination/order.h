// In which order to eliminate the variables: what decides whether exact elimination is possible at all. Two greedy
// orders are tried, min-fill (fewest new pairs) and min-weight (smallest joint table), and the one with the smaller
// largest table, then the less total work, is taken (Bodlaender and Koster, "Treewidth computations I", 2010).
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace meshwright::elimination {

struct Order {
  std::vector<std::uint32_t> variables;
  double largest_table = 0;  // entries of the largest joint table, over a variable and its neighbours
  double work = 0;           // entries of all of them
  std::size_t width = 0;     // the most neighbours that a variable has when it is eliminated
};

Order find_order(const Problem& problem);

}  // namespace meshwright::elimination
