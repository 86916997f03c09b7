// Tries strategies one by one (probing, as in integer programming; Savelsbergh 1994): with a strategy taken for given
// the bound rises, and where it rises above the best known cost the strategy is excluded; where it does not, what the
// messages then point to is a start for the search that it would not have come to by itself. Nodes whose choice is another
// where memory is a little dearer than where it is a little cheaper come first, those with many neighbours before others:
// they hold too much or leave too much room, prices cannot decide between the two, and so the bound is below both.
#pragma once

#include <cstdint>
#include <vector>

#include "price_ascent.h"

namespace meshwright {

class Probing {
 public:
  explicit Probing(const CompactSpace& space);

  struct Outcome {
    bool excluded = false;
    bool changing = false;  // the node is one of those that come first
    std::vector<std::uint32_t> choice;  // what the messages point to, if not
  };
  // Probes the next strategy that is neither excluded nor in `known`, a choice of cost `upper`. After all have had
  // their turn, the next turn looks deeper.
  Outcome probe(PriceAscent& ascent, double upper, const std::vector<std::uint32_t>& known);
  [[nodiscard]] std::int64_t work() const { return work_; }
  // Finds the nodes that come first from now on.
  void sort(const PriceAscent& ascent);

 private:
  bool advance(const PriceAscent& ascent, const std::vector<std::uint32_t>& known);

  const CompactSpace& space_;
  std::vector<std::uint32_t> order_;  // nodes
  std::size_t at_ = 0;
  std::size_t changing_ = 0;  // of order_, the first ones
  std::uint32_t strategy_ = 0;
  int most_steps_;
  std::int64_t work_ = 0;
};

}  // namespace meshwright
