// How two blocks of devices are linked, and blocks whose devices have partners in each other.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "link_matrix.h"

namespace meshwright {

using Block = std::vector<std::size_t>;  // devices, in order

enum class BlockLinks : char { few, partners, all };

// By `fast`, which says of a device of each whether their link is fast. "all": most pairs. "partners": most devices have one partner in the
// other block. Blocks are equally large.
template <class Fast>
BlockLinks block_links(const Block& a, const Block& b, Fast fast) {
  std::vector<std::size_t> of_a(a.size()), of_b(b.size());
  std::size_t all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (fast(a[i], b[j])) ++of_a[i], ++of_b[j], ++all;
    }
  }
  if (2 * all > a.size() * b.size()) return BlockLinks::all;
  const auto single = static_cast<std::size_t>(std::ranges::count(of_a, std::size_t{1}) + std::ranges::count(of_b, std::size_t{1}));
  return 3 * single >= 2 * (a.size() + b.size()) ? BlockLinks::partners : BlockLinks::few;
}

// The devices of all blocks, one block after the other.
Block concatenated(const std::vector<Block>& blocks);

// The blocks in their order, with the devices of each at the places of their partners in the first one. Partners are joined by links that
// are faster than `threshold`, over any blocks; devices that lack some are joined to each other, the fastest links first. None: not every device
// has one partner in each block.
std::optional<std::vector<Block>> aligned_blocks(const LinkMatrix& links, double threshold, const std::vector<Block>& blocks);

}  // namespace meshwright
