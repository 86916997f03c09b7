// Groups in a relation between blocks of devices, such as "most of their links are fast".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshwright {

// A symmetric relation between blocks, as rows of bits.
class Relation {
 public:
  explicit Relation(std::size_t size) : size_(size), words_((size + 63) / 64), bits_(size * words_) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  void set(std::size_t a, std::size_t b, bool value);
  [[nodiscard]] bool holds(std::size_t a, std::size_t b) const { return (bits_[a * words_ + b / 64] >> b % 64 & 1U) != 0; }
  // In how many blocks the rows of both agree to be related.
  [[nodiscard]] std::size_t common(std::size_t a, std::size_t b) const;

 private:
  std::size_t size_, words_;
  std::vector<std::uint64_t> bits_;
};

using Partition = std::vector<std::vector<std::size_t>>;  // of blocks' indices, ascending

// Components of what is closely knit, less those in which fewer than two thirds of the pairs are related: their blocks stand alone. Two blocks are
// closely knit if they are related and at least half of their neighbours are the same: of those of the one that has fewer, or, `strict`, of the
// one that has more, so that the ends of a chain are no pairs.
Partition closely_knit_groups(const Relation& all, bool strict);

bool are_equal(const Partition& groups);

// The size that more than half of the blocks are in groups of; 0: there is none.
std::size_t usual_size(const Partition& groups);

}  // namespace meshwright
