#include "closely_knit.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace meshwright {

void Relation::set(std::size_t a, std::size_t b, bool value) {
  for (const auto& [row, column] : {std::pair(a, b), std::pair(b, a)}) {
    std::uint64_t& word = bits_[row * words_ + column / 64];
    word = value ? word | std::uint64_t{1} << column % 64 : word & ~(std::uint64_t{1} << column % 64);
  }
}

std::size_t Relation::common(std::size_t a, std::size_t b) const {
  std::size_t count = 0;
  for (std::size_t word = 0; word < words_; ++word) count += static_cast<std::size_t>(std::popcount(bits_[a * words_ + word] & bits_[b * words_ + word]));
  return count;
}

namespace {

// What is left of a relation between blocks that are closely knit.
Relation closely_knit(const Relation& all, bool strict) {
  Relation kept = all;
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (!all.holds(a, b)) continue;
      const std::size_t degree = strict ? std::max(all.common(a, a), all.common(b, b)) : std::min(all.common(a, a), all.common(b, b));
      if (2 * all.common(a, b) + 1 < degree) kept.set(a, b, false);
    }
  }
  return kept;
}

}  // namespace

Partition closely_knit_groups(const Relation& all, bool strict) {
  const Relation kept = closely_knit(all, strict);
  Partition groups;
  std::vector<bool> seen(all.size());
  for (std::size_t first = 0; first < all.size(); ++first) {
    if (seen[first]) continue;
    std::vector<std::size_t> group = {first};
    seen[first] = true;
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t b = 0; b < all.size(); ++b) {
        if (!seen[b] && kept.holds(group[i], b)) seen[b] = true, group.push_back(b);
      }
    }
    std::ranges::sort(group);
    std::size_t related = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) related += all.holds(group[i], group[j]) ? 1 : 0;
    }
    if (3 * related >= group.size() * (group.size() - 1)) groups.push_back(std::move(group));
    else for (const std::size_t block : group) groups.push_back({block});
  }
  std::ranges::sort(groups);
  return groups;
}

bool are_equal(const Partition& groups) {
  return std::ranges::all_of(groups, [&](const auto& group) { return group.size() == groups[0].size(); });
}

std::size_t usual_size(const Partition& groups) {
  std::map<std::size_t, std::size_t> blocks;
  std::size_t all = 0;
  for (const auto& group : groups) blocks[group.size()] += group.size(), all += group.size();
  for (const auto& [size, count] : blocks) {
    if (2 * count > all) return size;
  }
  return 0;
}

}  // namespace meshwright
