// A choice by diving, as in integer programming (Achterberg, "Constraint integer programming", 2007): strategies that
// the messages think the dearest go, the messages are passed again, and so on until each node has one left. Where they
// think nothing dear any more, some nodes take what the messages point to. A step that leaves nothing is undone and
// tried smaller.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "price_ascent.h"

namespace meshwright {

class Diving {
 public:
  Diving(const CompactSpace& space, std::uint64_t seed) : space_(space), random_(seed) {}

  // At the ascent's best prices, which stay: the choice may be over the rooms.
  std::vector<std::uint32_t> dive(const PriceAscent& ascent, const std::function<bool()>& is_late);
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  enum class Order { nodes, hubs, any };  // in which nodes take what is pointed to

  [[nodiscard]] std::vector<std::uint32_t> open_nodes(const MessagePassing& messages) const;
  void take(MessagePassing& messages, std::vector<std::uint32_t> nodes, double share, Order order);
  bool drop(MessagePassing& messages, double share);
  void sweep(MessagePassing& messages);

  const CompactSpace& space_;
  std::mt19937_64 random_;
  std::vector<double> rises_;  // scratch
  std::int64_t work_ = 0;
};

}  // namespace meshwright
