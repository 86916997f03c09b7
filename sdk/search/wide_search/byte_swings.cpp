#include "byte_swings.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

constexpr double kRemember = 0.9;  // of steps before the last

// The prices of all points before each.
std::vector<double> priced_before(const PointPrices& prices) {
  std::vector<double> before = {0};
  for (const std::int64_t price : prices) before.push_back(before.back() + std::ldexp(static_cast<double>(price), -kPriceBits));
  return before;
}

double priced_bytes(const CompactSpace& space, std::uint32_t node, std::uint32_t strategy, const std::vector<double>& before) {
  double sum = 0;
  for (const CompactSpace::Term& term : space.terms(node)) {
    sum += (before[term.end] - before[term.begin]) * static_cast<double>(term.bytes[strategy]);
  }
  return sum;
}

std::vector<std::uint32_t> strategies_left(const CompactSpace& space, const MessagePassing& messages, std::uint32_t node) {
  std::vector<std::uint32_t> left;
  for (std::uint32_t s = 0; s < space.domain(node); ++s) {
    if (!messages.is_excluded(space.offset(node) + s)) left.push_back(s);
  }
  return left;
}

}  // namespace

ByteSwings::ByteSwings(const CompactSpace& space) : space_(space), mean_(space.size(), 0), square_(space.size(), 0) {}

void ByteSwings::note(const PriceAscent& ascent) {
  const std::vector<double> before = priced_before(ascent.prices());
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    if (space_.terms(node).empty()) continue;
    const double priced = priced_bytes(space_, node, ascent.choice()[node], before);
    mean_[node] = kRemember * mean_[node] + (1 - kRemember) * priced;
    square_[node] = kRemember * square_[node] + (1 - kRemember) * priced * priced;
  }
}

std::optional<ByteSwings::Split> ByteSwings::split(const PriceAscent& ascent) const {
  const MessagePassing& messages = ascent.messages();
  const std::vector<double> before = priced_before(ascent.prices());
  std::optional<std::uint32_t> swings, linked;
  double most = 0;
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    const std::vector<std::uint32_t> left = strategies_left(space_, messages, node);
    if (left.size() < 2) continue;
    if (!linked || space_.links(node).size() > space_.links(*linked).size()) linked = node;
    const double swing = square_[node] - mean_[node] * mean_[node];
    if (swing <= most) continue;
    double least = kNever;
    double largest = 0;
    for (const std::uint32_t s : left) {
      const double priced = priced_bytes(space_, node, s, before);
      least = std::min(least, priced);
      largest = std::max(largest, priced);
    }
    if (largest <= least || mean_[node] >= largest || mean_[node] < least) continue;
    most = swing;
    swings = node;
  }
  if (!linked) return std::nullopt;
  const std::uint32_t node = swings ? *swings : *linked;
  Split result;
  for (const std::uint32_t s : strategies_left(space_, messages, node)) {
    const bool is_light = swings ? priced_bytes(space_, node, s, before) <= mean_[node] : s == messages.cheapest()[node];
    (is_light ? result.light : result.heavy).push_back(space_.offset(node) + s);
  }
  if (result.light.empty()) std::swap(result.light, result.heavy);
  if (result.heavy.empty()) {  // what is pointed to has just been excluded: any two parts do
    result.heavy.assign(result.light.begin() + 1, result.light.end());
    result.light.resize(1);
  }
  return result;
}

}  // namespace meshwright
