// Finds the prices of the points in time that make the bound of MessagePassing the highest: steps along the bytes that
// the messages' choice holds over the rooms (a subgradient with momentum and Polyak's step length; Polyak 1969, Barahona
// and Anbil, "The volume algorithm", 2000), and, in turns, along those that the nodes' own best hold. A point is priced
// from when it was the highest over its room, and at zero until then: points beside a peak are over with it, and prices
// that are spread over all of them are found much more slowly.
#pragma once

#include <span>
#include <vector>

#include "message_passing.h"

namespace meshwright {

class PriceAscent {
 public:
  // `start` are prices of the points; none: zero. `messages` have not been swept yet.
  PriceAscent(const CompactSpace& space, const PointPrices& start, MessagePassing messages);
  PriceAscent(const CompactSpace& space, const PointPrices& start) : PriceAscent(space, start, MessagePassing(space)) {}

  // One step and one sweep. `target` is what the bound is compared with: the cost of the best choice that is known.
  void step(double target);

  [[nodiscard]] double bound() const { return best_bound_; }  // the best so far, in the space's shifted ticks
  [[nodiscard]] const PointPrices& prices() const { return best_prices_; }  // those of the best bound
  [[nodiscard]] const std::vector<std::uint32_t>& choice() const { return messages_.choice(); }
  [[nodiscard]] const MessagePassing& messages() const { return messages_; }
  // Steps have become too short to matter.
  [[nodiscard]] bool has_converged() const { return share_ < kLeastShare; }
  [[nodiscard]] std::int64_t work() const { return work_; }
  // The messages at the best prices, after as many sweeps.
  void settle(int sweeps);
  // More became known: steps are as long as at first.
  void start_over();

  // Which strategies no choice of at most `cost` has: sweeps at the best prices. The bound is then one of choices of at
  // most this cost; infinity if there are none.
  void exclude_above(double cost, int sweeps);

  // The same best prices, and the messages, for choices that have none of these, by their place among all strategies. Its
  // steps are as long as at first.
  [[nodiscard]] PriceAscent without(std::span<const std::size_t> strategies) const;
  // What costs more than this is excluded whenever messages are passed.
  void set_most_cost(double cost) { messages_.set_most_cost(cost); }
  // For what is known from elsewhere: no choice that matters has this one of all strategies.
  void forbid(std::size_t strategy) { messages_.forbid(strategy); }

 private:
  static constexpr double kFirstShare = 1;
  static constexpr double kLeastShare = 1e-5;
  void note_bound();

  const CompactSpace& space_;
  MessagePassing messages_;
  std::vector<double> at_, direction_, best_at_;
  std::vector<bool> priced_;  // points that may have a price
  PointPrices best_prices_;
  double best_bound_ = 0;
  double norm_ = 0;      // of the bytes over, at its highest of late
  double share_ = kFirstShare;  // of Polyak's step
  bool own_ = false;     // the last step was along what the nodes' own best hold
  int idle_ = 0;         // steps since the bound rose
  std::int64_t work_ = 0;
};

}  // namespace meshwright
