// What windows of any shape have in common: memory comes in by prices of the points in time, which are raised where the solution
// exceeds the rooms. Each round's value bounds what the window can reach from below, so the search of a window ends when nothing
// better is left in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search_state.h"
#include "window_outcome.h"

namespace meshwright {

class PricedWindow {
 public:
  // Strategies of the window's nodes, by the last search.
  [[nodiscard]] std::span<const std::uint32_t> solution() const { return solution_; }
  // Entries looked at so far, by all calls.
  [[nodiscard]] std::int64_t work() const { return work_; }

 protected:
  explicit PricedWindow(const CompactSpace& space) : space_(space) {}
  PricedWindow(const PricedWindow&) = default;
  ~PricedWindow() = default;

  // What the others leave at the points begin_ .. end_, where current_ is what the window's nodes have.
  void load_rooms(const SearchState& state);
  // Rounds of prices from those of all points, until the solution fits and costs less, or nothing does.
  WindowOutcome search_by_prices(const SearchState& state, std::span<const double> prices, int most_rounds);

  const CompactSpace& space_;
  std::vector<std::uint32_t> current_, solution_;
  std::uint32_t begin_ = 0, end_ = 0;   // the points that the nodes' terms cover
  std::int64_t work_ = 0;

 private:
  // The best solution under prices, summed up before each point, and its value.
  virtual double solve(std::span<const double> priced_before) = 0;
  [[nodiscard]] virtual double plain_cost(std::span<const std::uint32_t> strategies) const = 0;
  // Bytes at points begin_ ..
  virtual void hold(std::span<const std::uint32_t> strategies, std::vector<std::int64_t>& bytes) const = 0;

  std::vector<std::int64_t> rooms_;  // that the others leave at these
  std::vector<std::int64_t> bytes_;  // that the solution holds
  std::vector<double> prices_, before_;
};

}  // namespace meshwright
