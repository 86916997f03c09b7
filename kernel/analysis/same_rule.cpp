#include "analysis/same_rule.h"

#include <algorithm>

namespace meshwright {

bool is_same_but_for_sizes(const Rule& a, const Rule& b) {
  const auto alike = [](const Factor& x, const Factor& y) { return x.name == y.name && x.whole == y.whole && x.pads == y.pads && x.internal == y.internal; };
  const auto same = [](const TensorRule& x, const TensorRule& y) { return x.dimensions == y.dimensions && x.addend == y.addend && x.own == y.own; };
  const auto moved = [](const Exchange& x, const Exchange& y) { return x.from == y.from && x.to == y.to && x.copies == y.copies && x.distinct == y.distinct; };
  return std::ranges::equal(a.factors, b.factors, alike) && std::ranges::equal(a.operands, b.operands, same) && std::ranges::equal(a.results, b.results, same) && a.linear == b.linear &&
         a.coupled == b.coupled && std::ranges::equal(a.exchanges, b.exchanges, moved);
}

bool is_cut_alike(const AtomShape& a, const AtomShape& b) { return a.atoms_of_dimension == b.atoms_of_dimension; }

}  // namespace meshwright
