#include "curve.h"

#include <algorithm>
#include <cstddef>

namespace meshwright {

std::vector<double> never_falling(const std::vector<double>& seconds) {
  struct Block {
    double sum = 0;
    std::size_t points = 0;
    [[nodiscard]] double mean() const { return sum / static_cast<double>(points); }
  };
  std::vector<Block> blocks;
  for (const double each : seconds) {
    blocks.push_back({each, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().points += last.points;
    }
  }
  std::vector<double> pooled;
  for (const Block& block : blocks) pooled.insert(pooled.end(), block.points, block.mean());
  return pooled;
}

RateCurve rising_curve(const std::vector<double>& sizes, const std::vector<double>& seconds) {
  RateCurve curve{sizes, {}};
  double before = 0;
  for (const double pooled : never_falling(seconds)) {
    before = std::max(pooled, before * (1 + kLeastRise));
    curve.rates.push_back(sizes[curve.rates.size()] / before);
  }
  return curve;
}

}  // namespace meshwright
