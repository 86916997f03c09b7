// The Lagrangian of the memory budget: each point in time pays a multiplier for each byte over what there is room for,
//   L(m) = min_s cost(s) + Σ_k m_k (bytes_k(s) - room_k)  ≤  the least cost within the budget, for all m ≥ 0.
// Multipliers are fractions of 2^32, and their share of a node's cost is rounded down, so the bound holds exactly.
// L is concave and piecewise linear: along one multiplier a secant between a choice over the room and one within it
// finds its top in a few passes (SEARCH.md's "budget, one term"); several multipliers take turns.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "passes.h"

namespace meshwright::elimination {

inline constexpr int kMultiplierBits = 32;
using Multipliers = std::vector<std::int64_t>;  // one for each point, times 2^kMultiplierBits

// floor(Σ_k m_k bytes_k)
TickSum priced(const Multipliers& multipliers, std::span<const std::int64_t> bytes);

struct Relaxed {
  Multipliers multipliers;
  TickSum bound = 0;
  std::vector<std::uint32_t> choice;
};

class Relaxation {
 public:
  // `room` is the budget less the point's `least`, for each point. `least_choices` has for each point a choice that
  // holds the fewest bytes at it. `seen` is told of every choice that a pass finds.
  Relaxation(Passes& passes, const StrategySpace& space, std::span<const MemoryPoint> points,
             std::vector<std::int64_t> room, std::span<const std::vector<std::uint32_t>> least_choices,
             std::function<void(const std::vector<std::uint32_t>&)> seen);

  // The pass in which no multiplier is above 0, which need not be made again.
  void know(const Forward& unpriced);

  // The best multipliers found, starting from `start`. Nothing if the meter is exhausted before there is a bound.
  std::optional<Relaxed> maximize(Multipliers start);

  // The forward pass at these multipliers.
  std::optional<Forward> forward(const Multipliers& multipliers);

  // Costs with the multipliers' share. The share is cut where it would not leave sums below kForbidden.
  Unaries priced_unaries(const Multipliers& multipliers) const;

 private:
  struct Line {  // of one choice: L as a function of one multiplier, at + slope m; scaled by 2^kMultiplierBits
    TickSum at = 0;
    TickSum slope = 0;
  };

  std::optional<Relaxed> evaluate(Multipliers multipliers);
  bool maximize_along(std::size_t point, Relaxed& best);
  [[nodiscard]] Line line_of(std::size_t point, const Multipliers& multipliers,
                             const std::vector<std::uint32_t>& choice) const;
  [[nodiscard]] std::int64_t bytes_of(std::size_t point, const std::vector<std::uint32_t>& choice) const;
  [[nodiscard]] bool fits(const Multipliers& multipliers) const;

  Passes& passes_;
  const StrategySpace& space_;
  std::span<const MemoryPoint> points_;
  std::vector<std::int64_t> room_;
  std::span<const std::vector<std::uint32_t>> least_choices_;
  std::function<void(const std::vector<std::uint32_t>&)> seen_;
  std::map<Multipliers, Relaxed> known_;
};

}  // namespace meshwright::elimination
