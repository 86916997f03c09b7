// Large-neighbourhood search within the rooms (Shaw 1998): windows of nodes, which hang together in the graph or live
// at the same time, are re-solved exactly given all others (forest_window.h), and kept if the choice costs less.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "forest_window.h"
#include "message_passing.h"
#include "search_state.h"

namespace meshwright {

class NeighbourhoodSearch {
 public:
  NeighbourhoodSearch(const CompactSpace& space, std::uint64_t seed);

  // Brings a choice within the rooms and takes it if it is the best so far. Gives whether it could.
  bool consider(const std::vector<std::uint32_t>& choice, const PointPrices& prices);
  // Improves the best choice, if there is one, for about as many steps of work.
  void run(const PointPrices& prices, std::int64_t work);

  [[nodiscard]] bool has_choice() const { return best_.has_value(); }
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return best_->choice(); }
  [[nodiscard]] double cost() const { return best_ ? best_->cost() : kNever; }  // in the space's shifted ticks
  [[nodiscard]] std::int64_t work() const { return work_ + window_.work(); }

 private:
  struct Kind {           // of windows
    bool by_time = false; // nodes that live at a point; else a ball in the graph
    std::size_t size = 0;
    double gained = 0;    // share of the cost, forgotten slowly
    double spent = 1;     // work, likewise
  };

  void set_prices(const PointPrices& prices);
  Kind& pick_kind();
  std::vector<std::uint32_t> pick_nodes(const Kind& kind);
  std::vector<std::uint32_t> ball(std::size_t size);
  std::vector<std::uint32_t> live_together(std::size_t size);
  void try_window(const Kind& kind);
  std::size_t draw(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  void shuffle(std::vector<std::uint32_t>& nodes);

  const CompactSpace& space_;
  std::mt19937_64 random_;
  ForestWindow window_;
  std::optional<SearchState> best_;
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> with_memory_;
  std::vector<double> prices_, prices_before_;
  std::vector<std::uint32_t> seen_;  // by node: the number of the ball that reached it last
  std::uint32_t balls_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace meshwright
