#include "diving.h"

#include <algorithm>
#include <memory>

namespace meshwright {

namespace {

constexpr double kShare = 0.2;   // of what is left goes in a step
constexpr double kGrow = 1.2;    // the share, after a step that left something,
constexpr double kShrink = 0.5;  // and after one that did not
constexpr int kDiveSweeps = 2;       // after a step
constexpr int kMostSteps = 100;
constexpr double kNothing = 1e-6;  // of the bound, by node: less is not dear

}  // namespace

std::vector<std::uint32_t> Diving::open_nodes(const MessagePassing& messages) const {
  std::vector<std::uint32_t> open;
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    int left = 0;
    for (std::uint32_t s = 0; s < space_.domain(node); ++s)
      left += messages.is_excluded(space_.offset(node) + s) ? 0 : 1;
    if (left > 1) open.push_back(node);
  }
  return open;
}

void Diving::sweep(MessagePassing& messages) {
  for (int i = 0; i < kDiveSweeps; ++i) {
    messages.sweep();
    work_ += 4 * space_.entries();
  }
}

// A share of the nodes, and at least one, takes what the messages point to.
void Diving::take(MessagePassing& messages, std::vector<std::uint32_t> nodes, double share, Order order) {
  std::vector<std::pair<double, std::uint32_t>> ranked;
  for (const std::uint32_t node : nodes) {
    const double drawn = static_cast<double>(random_() % 1024) / 1024;
    const double rank = order == Order::nodes  ? node
                        : order == Order::hubs ? -drawn * static_cast<double>(space_.links(node).size())
                                               : drawn;
    ranked.emplace_back(rank, node);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(ranked.size()))));
  for (const auto& [rank, node] : ranked) {
    const std::uint32_t taken = messages.choice()[node];
    if (messages.is_excluded(space_.offset(node) + taken)) continue;
    for (std::uint32_t s = 0; s < space_.domain(node); ++s) {
      if (s != taken) messages.forbid(space_.offset(node) + s);
    }
  }
}

// A share of the strategies that are more than their nodes need goes; false, and nothing goes, if none of them is dear.
bool Diving::drop(MessagePassing& messages, double share) {
  rises_.clear();
  for (std::size_t s = 0; s < space_.strategies(); ++s) {
    if (!messages.is_excluded(s)) rises_.push_back(messages.rise(s));
  }
  if (rises_.size() <= space_.size()) return false;
  const auto more = static_cast<double>(rises_.size() - space_.size());
  const auto place =
      rises_.begin() + static_cast<std::ptrdiff_t>(space_.size()) + static_cast<std::ptrdiff_t>((1 - share) * more);
  std::nth_element(rises_.begin(), place, rises_.end());
  if (*place < kNothing * std::max(0.0, messages.bound()) / static_cast<double>(space_.size()) + 1) return false;
  messages.set_most_cost(messages.bound() + *place - 1);
  sweep(messages);
  messages.set_most_cost(kNever);
  return true;
}

std::vector<std::uint32_t> Diving::dive(const PriceAscent& ascent, const std::function<bool()>& is_late) {
  const auto order = static_cast<Order>(random_() % 3);
  auto messages = std::make_unique<MessagePassing>(ascent.messages());
  messages->set_prices(ascent.prices());
  messages->set_most_cost(kNever);
  sweep(*messages);
  double dropped = kShare;
  double taken = kShare;
  bool undone = false;
  for (int step = 0; step < kMostSteps && messages->bound() < kNever && !is_late(); ++step) {
    std::vector<std::uint32_t> open = open_nodes(*messages);
    work_ += static_cast<std::int64_t>(4 * space_.strategies());
    if (open.empty()) break;
    auto before = std::make_unique<MessagePassing>(*messages);
    const bool takes = undone || !drop(*messages, dropped);
    if (takes) {
      take(*messages, std::move(open), taken, order);
      sweep(*messages);
    }
    undone = messages->bound() == kNever;
    double& share = takes ? taken : dropped;
    share = undone ? kShrink * share : std::min(kShare, kGrow * share);
    if (undone) messages = std::move(before);
  }
  return messages->choice();
}

}  // namespace meshwright
