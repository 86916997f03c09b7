#include "partners.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

using Rail = std::vector<std::size_t>;  // its device in each block, or kNobody

// Whether they have no block in common.
bool fit(const Rail& a, const Rail& b) {
  for (std::size_t block = 0; block < a.size(); ++block) {
    if (a[block] != kNobody && b[block] != kNobody) return false;
  }
  return true;
}

double fastest_link(const LinkMatrix& links, const Rail& a, const Rail& b) {
  double fastest = 0;
  for (const std::size_t i : a) {
    for (const std::size_t j : b) {
      if (i != kNobody && j != kNobody) fastest = std::max(fastest, links.bandwidth(i, j));
    }
  }
  return fastest;
}

class Partners {
 public:
  Partners(const LinkMatrix& links, double threshold, const std::vector<Block>& blocks) : links_(links), threshold_(threshold), blocks_(blocks), reached_(links.devices, std::vector<std::size_t>(blocks.size())) {
    for (const Block& own : blocks) {
      for (const std::size_t device : own) {
        for (std::size_t other = 0; other < blocks.size(); ++other) {
          reached_[device][other] = static_cast<std::size_t>(std::ranges::count_if(blocks[other], [&](std::size_t next) { return next != device && links.bandwidth(device, next) > threshold; }));
        }
      }
    }
  }

  // Adds the devices that partners' links reach from this one. False: two of them are in one block.
  bool follow(std::size_t block, std::size_t device, Rail& rail) const {
    rail[block] = device;
    for (std::size_t other = 0; other < blocks_.size(); ++other) {
      if (other == block) continue;
      for (const std::size_t next : blocks_[other]) {
        if (!are_partners(block, device, other, next) || rail[other] == next) continue;
        if (rail[other] != kNobody || !follow(other, next, rail)) return false;
      }
    }
    return true;
  }

 private:
  // A fast link between two devices that both have others in the other's block is one that is faster than it should be.
  [[nodiscard]] bool are_partners(std::size_t block, std::size_t device, std::size_t other, std::size_t next) const {
    return links_.bandwidth(device, next) > threshold_ && (reached_[device][other] == 1 || reached_[next][block] == 1);
  }

  const LinkMatrix& links_;
  double threshold_;
  const std::vector<Block>& blocks_;
  std::vector<std::vector<std::size_t>> reached_;  // by device and block, how many of its devices by fast links
};

}  // namespace

Block concatenated(const std::vector<Block>& blocks) {
  Block all;
  for (const Block& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

std::optional<std::vector<Block>> aligned_blocks(const LinkMatrix& links, double threshold, const std::vector<Block>& blocks) {
  const Partners partners(links, threshold, blocks);
  std::vector<Rail> rails;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (const std::size_t device : blocks[block]) {
      if (std::ranges::any_of(rails, [&](const Rail& rail) { return rail[block] == device; })) continue;
      Rail rail(blocks.size(), kNobody);
      if (!partners.follow(block, device, rail)) return std::nullopt;
      rails.push_back(std::move(rail));
    }
  }
  if (rails.size() > 2 * blocks[0].size()) return std::nullopt;
  while (rails.size() > blocks[0].size()) {
    std::size_t best_a = 0, best_b = 0;
    double fastest = 0;
    for (std::size_t a = 0; a < rails.size(); ++a) {
      for (std::size_t b = a + 1; b < rails.size(); ++b) {
        if (!fit(rails[a], rails[b]) || fastest_link(links, rails[a], rails[b]) <= fastest) continue;
        fastest = fastest_link(links, rails[a], rails[b]);
        best_a = a;
        best_b = b;
      }
    }
    if (best_b == 0) return std::nullopt;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      if (rails[best_b][block] != kNobody) rails[best_a][block] = rails[best_b][block];
    }
    rails.erase(rails.begin() + static_cast<std::ptrdiff_t>(best_b));
  }
  std::vector<Block> aligned(blocks.size());
  for (const std::size_t device : blocks[0]) {
    const auto rail = std::ranges::find(rails, device, [](const Rail& each) { return each[0]; });
    if (rail == rails.end()) return std::nullopt;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      if ((*rail)[block] == kNobody) return std::nullopt;
      aligned[block].push_back((*rail)[block]);
    }
  }
  return aligned;
}

}  // namespace meshwright
