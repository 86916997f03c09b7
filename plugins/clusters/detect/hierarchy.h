// Which devices see each other alike: groups inside groups, all groups of one level equally large (MAP §4.2).
//
// Bandwidths that differ by more than noise are of different kinds of links. From the fastest kind to the slowest, groups are joined that are
// linked by it: two groups are if most of their pairs are, so that one slow link splits nothing, or if each device of one has one partner in
// the other (rails of InfiniBand, the links between the quads of a DGX-1). Groups must be closely knit: a ring of fast links is none.
// Where the groups that a level joins have fast links among themselves that join them two by two without one left over, those pairs are a level too.
#pragma once

#include <cstddef>
#include <vector>

#include "link_matrix.h"

namespace meshwright {

struct GroupLevel {
  std::size_t group = 0;  // devices that it joins
  // Whether devices are linked to their partners only: those at the same place of the other groups that it joins.
  bool aligned = false;
};

struct Hierarchy {
  // The device at each place. Groups of all levels are contiguous, each begins with its smallest device (unless partners say otherwise), and a
  // level's groups ascend by their smallest devices.
  std::vector<std::size_t> order;
  std::vector<GroupLevel> levels;  // innermost first; the last joins all
};

// Bandwidths between kinds of links, descending; the last is 0. A few values in between, of links that are not as others of their kind, do
// not hide that two kinds are apart.
std::vector<double> find_thresholds(const LinkMatrix& links);

// Errors: bad_input that lists the groups, where they are not equally large.
Result<Hierarchy> find_hierarchy(const LinkMatrix& links);

}  // namespace meshwright
