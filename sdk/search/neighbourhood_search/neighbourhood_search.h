// Large-neighbourhood search within the rooms (Shaw 1998): windows of nodes, which hang together in the graph or live
// at the same time, are re-solved exactly given all others (forest_window.h, width_window.h), and kept if the choice costs
// less.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "forest_window.h"
#include "message_passing.h"
#include "search_state.h"
#include "width_window.h"

namespace meshwright {

class NeighbourhoodSearch {
 public:
  NeighbourhoodSearch(const CompactSpace& space, std::uint64_t seed);

  // Brings a choice within the rooms and goes on from there. Gives whether it could; if not, the search stays where it
  // was.
  bool start_from(const std::vector<std::uint32_t>& choice, const PointPrices& prices);
  // The same, but only if the choice is then better than the current one.
  bool offer(const std::vector<std::uint32_t>& choice, const PointPrices& prices);
  // Takes of other choices what makes the current one, if there is one, better: windows of all nodes in which they differ,
  // with the strategies that they have there (optimal recombination; Eremeev and Kovalenko 2014).
  void recombine(const std::vector<std::vector<std::uint32_t>>& others, const PointPrices& prices);
  // Improves the current choice, if there is one, for about as many steps of work. Where no window helps any more, some
  // nodes are re-solved with noise of at most `noise` on their costs, and what follows is undone if it ends higher
  // (iterated local search, Lourenço, Martin and Stützle 2003).
  void run(const PointPrices& prices, std::int64_t work, double noise);

  // The best of all; its costs in the space's shifted ticks.
  [[nodiscard]] bool has_choice() const { return best_cost_ < kNever; }
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return best_; }
  [[nodiscard]] double cost() const { return best_cost_; }
  [[nodiscard]] const std::vector<std::uint32_t>& current() const { return state_->choice(); }
  [[nodiscard]] double current_cost() const { return state_ ? state_->cost() : kNever; }
  [[nodiscard]] std::int64_t work() const { return work_ + window_.work() + width_.work(); }

 private:
  struct Kind {           // of windows
    bool by_time = false; // nodes that live at a point; else a ball in the graph
    std::size_t size = 0;
    bool is_forest = true;  // else of small width
    double gained = 0;    // share of the cost, forgotten slowly
    double spent = 1;     // work, likewise
  };

  bool adopt(const std::vector<std::uint32_t>& choice, const PointPrices& prices, double below);
  void set_prices(const PointPrices& prices);
  Kind& pick_kind();
  std::vector<std::uint32_t> pick_nodes(const Kind& kind);
  std::vector<std::uint32_t> ball(std::size_t size);
  std::vector<std::uint32_t> live_together(std::size_t size);
  bool try_window(const Kind& kind);
  bool accept(std::span<const std::uint32_t> nodes, std::span<const std::uint32_t> solution, WindowOutcome outcome);
  void improve(std::int64_t work);
  bool kick(double noise);
  void keep_best();
  // Entries and strategies: the work of one look at everything.
  [[nodiscard]] std::int64_t size() const { return space_.entries() + static_cast<std::int64_t>(space_.strategies()); }
  std::size_t draw(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  void shuffle(std::vector<std::uint32_t>& nodes);

  const CompactSpace& space_;
  std::mt19937_64 random_;
  ForestWindow window_;
  WidthWindow width_;
  std::optional<SearchState> state_;
  std::vector<std::uint32_t> best_;
  double best_cost_ = kNever;
  std::vector<Kind> kinds_;
  std::vector<double> noise_;
  std::vector<std::uint32_t> kicked_;  // nodes around which windows are looked for; none: anywhere
  std::int64_t idle_ = 0;              // work since the last gain
  std::vector<std::uint32_t> with_memory_;
  std::vector<double> prices_, prices_before_;
  std::vector<std::uint32_t> seen_;  // by node: the number of the ball that reached it last
  std::uint32_t balls_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace meshwright
