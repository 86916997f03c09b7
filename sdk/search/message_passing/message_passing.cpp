#include "message_passing.h"

#include <algorithm>
#include <cmath>

#include "wide_vectors.h"

namespace meshwright {

namespace {

constexpr double kMostPriced = static_cast<double>(std::int64_t{1} << 51);  // sums stay whole numbers

// least[s] = min over j of table[j * count + s] - taken[j]. What was excluded has taken all, and is not looked at.
MESHWRIGHT_WIDE_VECTORS void minimize(const double* table, const std::vector<double>& taken, std::size_t count, double* least) {
  std::fill(least, least + count, kNever);
  for (const double less : taken) {
    for (std::size_t s = 0; s < count && less > -kNever; ++s) {
      const double value = table[s] - less;
      least[s] = value < least[s] ? value : least[s];
    }
    table += count;
  }
}

}  // namespace

MessagePassing::MessagePassing(const CompactSpace& space)
    : space_(space),
      prices_(space.rooms().size(), 0),
      costs_(space.unary().begin(), space.unary().end()),
      shares_(costs_.size(), 0),
      choice_(space.size(), 0),
      cheapest_(choice_) {
  for (const CompactSpace::Edge& edge : space.edges()) {
    taken_.emplace_back(space.domain(edge.first), 0);
    taken_.emplace_back(space.domain(edge.second), 0);
  }
}

Messages MessagePassing::messages() const {
  Messages result;
  for (std::uint32_t edge = 0; edge < space_.edges().size(); ++edge) {
    result[{space_.edges()[edge].first, space_.edges()[edge].second}] = {taken_[2 * edge], taken_[2 * edge + 1]};
  }
  return result;
}

void MessagePassing::start_from(const Messages& messages, std::span<const std::uint32_t> nodes,
                                std::span<const std::vector<std::uint32_t>> strategies) {
  for (std::uint32_t edge = 0; edge < space_.edges().size(); ++edge) {
    const std::array<std::uint32_t, 2> ends = {space_.edges()[edge].first, space_.edges()[edge].second};
    const bool swapped = nodes[ends[0]] > nodes[ends[1]];
    const auto known = messages.find(std::minmax(nodes[ends[0]], nodes[ends[1]]));
    if (known == messages.end()) continue;
    for (std::size_t end = 0; end < 2; ++end) {
      const std::uint32_t node = ends[end];
      const std::vector<double>& from = known->second[swapped ? 1 - end : end];
      std::vector<double>& own = taken_[2 * edge + end];
      for (std::uint32_t s = 0; s < own.size(); ++s) {
        const double message = from[strategies[node][s]];
        if (!std::isfinite(message)) continue;
        own[s] = message;
        costs_[space_.offset(node) + s] += message;
      }
    }
  }
}

bool MessagePassing::set_prices(const PointPrices& prices) {
  std::vector<TickSum> before(prices.size() + 1, 0);
  for (std::size_t t = 0; t < prices.size(); ++t) before[t + 1] = before[t] + prices[t];
  std::vector<double> shares(costs_.size(), 0);
  double most = 0;
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    if (space_.terms(node).empty()) continue;
    double most_of_node = 0;
    for (std::uint32_t s = 0; s < space_.domain(node); ++s) {
      TickSum share = 0;
      for (const CompactSpace::Term& term : space_.terms(node)) {
        const TickSum price = before[term.end] - before[term.begin];
        if (static_cast<double>(price) * static_cast<double>(term.bytes[s]) > std::ldexp(kMostPriced, kPriceBits)) return false;
        share += price * term.bytes[s];
      }
      shares[space_.offset(node) + s] = static_cast<double>(share >> kPriceBits);
      most_of_node = std::max(most_of_node, shares[space_.offset(node) + s]);
    }
    most += most_of_node;
  }
  TickSum rooms = 0;
  for (std::size_t t = 0; t < prices.size(); ++t) {
    if (std::abs(static_cast<double>(prices[t]) * static_cast<double>(space_.rooms()[t])) > std::ldexp(kMostPriced, kPriceBits)) return false;
    rooms += TickSum{prices[t]} * space_.rooms()[t];
  }
  rooms = -((-rooms) >> kPriceBits);  // rounded up
  if (most > kMostPriced || std::abs(static_cast<double>(rooms)) > kMostPriced) return false;
  for (std::size_t s = 0; s < costs_.size(); ++s) costs_[s] += shares[s] - shares_[s];
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    double* costs = costs_.data() + space_.offset(node);
    const double least = *std::min_element(costs, costs + space_.domain(node));
    if (least == kNever) continue;
    for (std::uint32_t s = 0; s < space_.domain(node); ++s) costs[s] -= least;
    constant_ += least;
  }
  shares_ = std::move(shares);
  prices_ = prices;
  priced_rooms_ = static_cast<double>(rooms);
  return true;
}

void MessagePassing::sweep() {
  const auto count = static_cast<std::uint32_t>(space_.size());
  for (std::uint32_t node = 0; node < count; ++node) visit(node, true);
  for (std::uint32_t node = count; node-- > 0;) visit(node, false);
  all_taken_ = true;
}

void MessagePassing::visit(std::uint32_t node, bool forward) {
  if (constant_ == kNever) return;
  collect(node, forward);
  if (constant_ == kNever) return;
  exclude(node);
  if (forward) decide(node);
  give(node, forward);
}

// The node takes all that its edges can give. Those ahead have nothing new: it took from them when it was visited last,
// and their other ends have not been visited since.
void MessagePassing::collect(std::uint32_t node, bool forward) {
  const std::uint32_t domain = space_.domain(node);
  double* costs = costs_.data() + space_.offset(node);
  least_.resize(std::max<std::size_t>(least_.size(), domain));
  for (const CompactSpace::Link& link : space_.links(node)) {
    if (all_taken_ && (link.other > node) == forward) continue;
    minimize(link.by_other, taken(link.edge, !link.is_first), domain, least_.data());
    std::vector<double>& own = taken(link.edge, link.is_first);
    for (std::uint32_t s = 0; s < domain; ++s) {
      costs[s] += least_[s] - own[s];
      own[s] = least_[s];
    }
  }
  const double least = *std::min_element(costs, costs + domain);
  constant_ += least;
  if (least == kNever) return;
  for (std::uint32_t s = 0; s < domain; ++s) costs[s] -= least;
}

void MessagePassing::exclude(std::uint32_t node) {
  if (most_cost_ == kNever) return;
  double* costs = costs_.data() + space_.offset(node);
  for (std::uint32_t s = 0; s < space_.domain(node); ++s) {
    if (bound() + costs[s] > most_cost_) costs[s] = kNever;
  }
  // The last strategy goes too: then no choice costs so little.
  if (*std::min_element(costs, costs + space_.domain(node)) == kNever) constant_ = kNever;
}

// What the nodes before chose takes the place of what their edges gave.
void MessagePassing::decide(std::uint32_t node) {
  const std::uint32_t domain = space_.domain(node);
  const double* costs = costs_.data() + space_.offset(node);
  std::copy(costs, costs + domain, least_.begin());
  for (const CompactSpace::Link& link : space_.links(node)) {
    if (link.other > node) continue;
    const double* row = link.by_other + std::size_t{choice_[link.other]} * domain;
    const double others = taken(link.edge, !link.is_first)[choice_[link.other]];
    const std::vector<double>& own = taken(link.edge, link.is_first);
    for (std::uint32_t s = 0; s < domain; ++s) {
      if (least_[s] < kNever) least_[s] += row[s] - others - own[s];
    }
  }
  const auto best = std::min_element(least_.begin(), least_.begin() + domain);
  cheapest_[node] = static_cast<std::uint32_t>(std::min_element(costs, costs + domain) - costs);
  choice_[node] = *best < kNever ? static_cast<std::uint32_t>(best - least_.begin()) : cheapest_[node];
}

// Equal parts to the edges ahead; a part stays where more edges lie behind.
void MessagePassing::give(std::uint32_t node, bool forward) {
  const std::uint32_t domain = space_.domain(node);
  double* costs = costs_.data() + space_.offset(node);
  std::size_t larger = 0;
  for (const CompactSpace::Link& link : space_.links(node)) larger += link.other > node ? 1 : 0;
  const double parts = static_cast<double>(std::max(larger, space_.links(node).size() - larger));
  for (std::uint32_t s = 0; s < domain; ++s) least_[s] = costs[s] < kNever ? std::floor(costs[s] / parts) : 0;
  for (const CompactSpace::Link& link : space_.links(node)) {
    std::vector<double>& own = taken(link.edge, link.is_first);
    const bool ahead = (link.other > node) == forward;
    for (std::uint32_t s = 0; s < domain; ++s) {
      if (costs[s] == kNever) {
        own[s] = -kNever;  // the edge forbids it too
      } else if (ahead) {
        own[s] -= least_[s];
        costs[s] -= least_[s];
      }
    }
  }
}

}  // namespace meshwright
