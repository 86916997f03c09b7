// Re-solves a set of nodes exactly, all others as they are: the nodes' induced graph is a forest, so that passing costs
// from the leaves to the roots is enough (elimination of width 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "priced_window.h"

namespace meshwright {

class ForestWindow final : public PricedWindow {
 public:
  explicit ForestWindow(const CompactSpace& space);

  // Takes the nodes in this order, but for those that would close a cycle.
  void set_nodes(std::span<const std::uint32_t> nodes);
  [[nodiscard]] std::span<const std::uint32_t> nodes() const { return order_; }

  // `prices` of all points are what the rounds start from. The solution is not applied to `state`, which fits. With
  // `noise`, by strategy of the whole space, the costs are those with it.
  WindowOutcome improve(const SearchState& state, std::span<const double> prices, int most_rounds,
                        std::span<const double> noise = {});

 private:
  static constexpr std::uint32_t kNobody = 0xffffffff;
  struct Member {
    std::uint32_t parent = kNobody;  // index into order_, smaller than the member's own
    const double* by_own = nullptr;  // the table to the parent, by own strategy and parent's
    std::size_t offset = 0;          // into costs_ and sums_
  };

  std::uint32_t root_of(std::uint32_t node);
  void load(const SearchState& state);
  double solve(std::span<const double> priced_before) override;
  [[nodiscard]] double plain_cost(std::span<const std::uint32_t> strategies) const override;
  void hold(std::span<const std::uint32_t> strategies, std::vector<std::int64_t>& bytes) const override;

  std::vector<std::uint32_t> order_;    // parents before children
  std::vector<Member> members_;         // as order_
  std::vector<std::uint32_t> union_;    // by node; kNobody outside of the window
  std::vector<std::uint32_t> position_; // in order_, by node; kNobody outside
  std::vector<double> costs_;           // of members' strategies without the window's edges
  std::vector<double> sums_;            // the same, priced, with what children gave
  std::vector<double> least_;
};

}  // namespace meshwright
