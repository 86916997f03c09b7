// How much the bytes of each node, at their prices, swing from step to step of an ascent: where prices cannot decide, the
// messages point to more bytes in one step and to fewer in the next, and what lies between the two is what the bound
// lacks. The node that swings the most is the one to branch on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "price_ascent.h"

namespace meshwright {

class ByteSwings {
 public:
  explicit ByteSwings(const CompactSpace& space);

  // To be told after each step. Steps of long ago count less.
  void note(const PriceAscent& ascent);

  struct Split {  // of what is left of a node, by place among all strategies; neither is empty
    std::vector<std::size_t> light, heavy;
  };
  // What is left of the node that swings the most, at the mean of its bytes; where none swings, of the node with the most
  // neighbours, its cheapest on the one side. Nothing if each node has one strategy left.
  [[nodiscard]] std::optional<Split> split(const PriceAscent& ascent) const;

 private:
  const CompactSpace& space_;
  std::vector<double> mean_, square_;  // by node, of priced bytes
};

}  // namespace meshwright
