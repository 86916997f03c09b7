// Tries strategies one by one (probing, as in integer programming; Savelsbergh 1994): with a strategy taken for given
// the bound rises, and where it rises above the best known cost the strategy is excluded; where it does not, what the
// messages then point to is a start for the search that it would not have come to by itself. Nodes with many
// neighbours come first: a hub taken for given often settles what hangs on it.
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
    std::vector<std::uint32_t> choice;  // what the messages point to, if not
  };
  // Probes the next strategy that is neither excluded nor in `known`, a choice of cost `upper`. After all have had
  // their turn, the next turn looks deeper.
  Outcome probe(PriceAscent& ascent, double upper, const std::vector<std::uint32_t>& known);
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  bool advance(const PriceAscent& ascent, const std::vector<std::uint32_t>& known);

  const CompactSpace& space_;
  std::vector<std::uint32_t> order_;  // nodes
  std::size_t at_ = 0;
  std::uint32_t strategy_ = 0;
  int most_steps_;
  std::int64_t work_ = 0;
};

}  // namespace meshwright
