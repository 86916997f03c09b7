// A lower bound of a space's least cost within its budget, where the graph is too wide for elimination: the points in
// time are priced by multipliers, and the rest is bounded by messages along the edges, in the order of the nodes and
// back (sequential tree-reweighted message passing, Kolmogorov 2006).
//
//   L(m) = bound of min_x [cost(x) + Σ_t m_t (bytes_t(x) - room_t)]  ≤  the least cost within the rooms, for any m ≥ 0
//
// Costs only move between nodes and edges, by whole numbers, and multipliers' shares are rounded down, so the bound is
// valid whenever it is read. The bound never falls while the multipliers stay.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compact_space.h"

namespace meshwright {

inline constexpr int kPriceBits = 32;
using PointPrices = std::vector<std::int64_t>;  // of a byte at each point in time, times 2^kPriceBits; not negative

// Messages by pair of nodes: what the strategies of the first, smaller one and of the second took from their edge.
using Messages = std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<std::vector<double>, 2>>;

class MessagePassing {
 public:
  explicit MessagePassing(const CompactSpace& space);

  [[nodiscard]] Messages messages() const;
  // Takes the messages of another space for a start, before the first sweep: any are valid. The other's number of a node, and
  // those of the node's strategies, are given; a number that is not the other's has no messages.
  void start_from(const Messages& messages, std::span<const std::uint32_t> nodes, std::span<const std::vector<std::uint32_t>> strategies);

  // Messages stay: they are a good start after a small change. False, and no change, if a share would not fit.
  bool set_prices(const PointPrices& prices);
  [[nodiscard]] const PointPrices& prices() const { return prices_; }

  // All nodes in their order and back. The choice is what the messages point to: each node's best, given the nodes
  // before it; it may be forbidden or over the rooms.
  void sweep();
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return choice_; }
  // Each node's best by what the last sweep forward told it, whatever others have.
  [[nodiscard]] const std::vector<std::uint32_t>& cheapest() const { return cheapest_; }
  // In the space's shifted ticks; infinity if no choice is allowed.
  [[nodiscard]] double bound() const { return constant_ - priced_rooms_; }

  // Strategies that every choice of at most this cost leaves out are marked while sweeping, and forbidden from then on:
  // the bound is then one of choices of at most this cost.
  void set_most_cost(double cost) { most_cost_ = cost; }
  // How much the bound rises at least, by what the messages say, if the strategy must be taken.
  [[nodiscard]] double rise(std::size_t strategy) const { return costs_[strategy]; }
  void forbid(std::size_t strategy) { costs_[strategy] = kNever; }
  [[nodiscard]] bool is_excluded(std::size_t strategy) const { return costs_[strategy] == kNever; }

 private:
  void visit(std::uint32_t node, bool forward);
  void collect(std::uint32_t node, bool forward);
  void exclude(std::uint32_t node);
  void decide(std::uint32_t node);
  void give(std::uint32_t node, bool forward);
  [[nodiscard]] std::vector<double>& taken(std::uint32_t edge, bool first) { return taken_[2 * edge + (first ? 0 : 1)]; }

  const CompactSpace& space_;
  PointPrices prices_;
  std::vector<double> costs_;   // of all strategies, what edges gave included, less their node's least
  std::vector<double> shares_;  // the prices' part of costs_
  std::vector<std::vector<double>> taken_;  // by edge and end: what the end's strategies took from the edge
  std::vector<double> least_;               // scratch
  std::vector<std::uint32_t> choice_, cheapest_;
  bool all_taken_ = false;  // nodes have taken from every edge at least once
  double constant_ = 0;
  double priced_rooms_ = 0;
  double most_cost_ = kNever;
};

}  // namespace meshwright
