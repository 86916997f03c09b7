#include "price_ascent.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

constexpr double kMomentum = 0.7;
constexpr double kForget = 0.98;      // of the norm
constexpr double kShorten = 0.7;      // of the step, after
constexpr int kPatience = 100;        // steps without
constexpr double kGain = 1e-4;        // as much of the gap

}  // namespace

PriceAscent::PriceAscent(const CompactSpace& space, const PointPrices& start, MessagePassing messages)
    : space_(space),
      messages_(std::move(messages)),
      at_(space.rooms().size(), 0),
      direction_(at_),
      best_at_(at_),
      priced_(at_.size(), false),
      best_prices_(at_.size(), 0) {
  if (start.size() == at_.size() && messages_.set_prices(start)) {
    for (std::size_t t = 0; t < at_.size(); ++t) at_[t] = std::ldexp(static_cast<double>(start[t]), -kPriceBits);
  }
  for (std::size_t t = 0; t < at_.size(); ++t) priced_[t] = at_[t] > 0;
  messages_.sweep();
  work_ += 4 * space.entries();
  best_bound_ = messages_.bound();
  best_prices_ = messages_.prices();
  best_at_ = at_;
}

void PriceAscent::note_bound() {
  if (messages_.bound() <= best_bound_) return;
  best_bound_ = messages_.bound();
  best_prices_ = messages_.prices();
  best_at_ = at_;
}

void PriceAscent::settle(int sweeps) {
  messages_.set_prices(best_prices_);
  at_ = best_at_;
  for (int i = 0; i < sweeps; ++i) {
    messages_.sweep();
    work_ += 4 * space_.entries();
  }
  best_bound_ = std::max(best_bound_, messages_.bound());
}

void PriceAscent::start_over() {
  share_ = kFirstShare;
  idle_ = 0;
  std::fill(direction_.begin(), direction_.end(), 0);
}

void PriceAscent::step(double target) {
  const std::size_t count = at_.size();
  // Where messages are far from agreeing, what they point to is over the rooms in places where the bound's nodes are not.
  own_ = !own_;
  const std::vector<std::uint32_t>& choice = own_ ? messages_.cheapest() : messages_.choice();
  std::vector<std::int64_t> change(count + 1, 0);
  for (std::uint32_t node = 0; node < space_.size(); ++node) {
    for (const CompactSpace::Term& term : space_.terms(node)) {
      change[term.begin] += term.bytes[choice[node]];
      change[term.end] -= term.bytes[choice[node]];
    }
  }
  std::int64_t bytes = 0;
  std::int64_t most = 0;
  std::size_t peak = count;
  for (std::size_t t = 0; t < count; ++t) {
    bytes += change[t];
    if (bytes - space_.rooms()[t] <= most) continue;
    most = bytes - space_.rooms()[t];
    peak = t;
  }
  if (peak < count) priced_[peak] = true;
  double norm = 0;
  bytes = 0;
  for (std::size_t t = 0; t < count; ++t) {
    bytes += change[t];
    if (!priced_[t]) continue;
    const auto over = static_cast<double>(bytes - space_.rooms()[t]);
    direction_[t] = (1 - kMomentum) * over + kMomentum * direction_[t];
    if (at_[t] > 0 || direction_[t] > 0) norm += over * over;
  }
  norm_ = std::max(kForget * norm_, norm);
  if (norm_ > 0 && target < kNever) {
    const double length = share_ * std::max(1.0, target - best_bound_) / norm_;
    PointPrices prices(count);
    for (std::size_t t = 0; t < count; ++t) {
      at_[t] = std::max(0.0, at_[t] + length * direction_[t]);
      prices[t] = static_cast<std::int64_t>(std::min(std::ldexp(at_[t], kPriceBits), 9e18));
    }
    if (!messages_.set_prices(prices)) {
      at_ = best_at_;
      share_ *= kShorten;
    }
  }
  messages_.sweep();
  work_ += 4 * space_.entries() + 8 * static_cast<std::int64_t>(space_.strategies() + count);
  const double gain = messages_.bound() - best_bound_;
  idle_ = gain > kGain * std::max(0.0, target - best_bound_) ? 0 : idle_ + 1;
  note_bound();
  if (idle_ < kPatience) return;
  idle_ = 0;
  share_ *= kShorten;
  at_ = best_at_;
  std::fill(direction_.begin(), direction_.end(), 0);
}

PriceAscent PriceAscent::without(std::span<const std::size_t> strategies) const {
  PriceAscent result = *this;
  for (const std::size_t s : strategies) result.forbid(s);
  result.messages_.set_prices(best_prices_);
  result.at_ = best_at_;
  result.start_over();
  result.messages_.sweep();
  result.work_ = space_.entries();  // the copy
  result.best_bound_ = result.messages_.bound();
  return result;
}

void PriceAscent::exclude_above(double cost, int sweeps) {
  messages_.set_most_cost(cost);
  settle(sweeps);
}

}  // namespace meshwright
