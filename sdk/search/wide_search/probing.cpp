#include "probing.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

namespace {

constexpr int kFirstSteps = 16;
constexpr int kChangingSteps = 256;  // of a node that changes, at least
constexpr double kAround = 0.02;     // so much cheaper or dearer is a little
constexpr int kSweeps = 30;
constexpr int kLook = 8;  // after as many steps it is judged whether as many steps as are left can be enough

}  // namespace

Probing::Probing(const CompactSpace& space) : space_(space), order_(space.size()), most_steps_(kFirstSteps) {
  std::iota(order_.begin(), order_.end(), 0U);
}

void Probing::sort(const PriceAscent& ascent) {
  std::vector<std::vector<std::uint32_t>> choices;
  for (const double factor : {1 - kAround, 1 + kAround}) {
    PointPrices prices;
    for (const std::int64_t price : ascent.prices()) {
      prices.push_back(static_cast<std::int64_t>(std::min(factor * static_cast<double>(price), 9e18)));
    }
    MessagePassing messages = ascent.messages();
    if (!messages.set_prices(prices)) continue;
    for (int i = 0; i < kSweeps; ++i) messages.sweep();
    work_ += kSweeps * 4 * space_.entries();
    choices.push_back(messages.choice());
  }
  const auto rank = [&](std::uint32_t node) {
    const bool changes = choices.size() == 2 && choices[0][node] != choices[1][node];
    return std::pair(changes, space_.links(node).size());
  };
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  at_ = strategy_ = 0;
  changing_ = static_cast<std::size_t>(std::count_if(order_.begin(), order_.end(), [&](std::uint32_t node) { return rank(node).first; }));
}

// To the next strategy that is worth it; false if there is none.
bool Probing::advance(const PriceAscent& ascent, const std::vector<std::uint32_t>& known) {
  for (std::size_t looked = 0; looked <= space_.strategies() + order_.size(); ++looked) {
    ++work_;
    if (strategy_ >= space_.domain(order_[at_])) {
      strategy_ = 0;
      if (++at_ == order_.size()) {
        at_ = 0;
        most_steps_ *= 2;
      }
      continue;
    }
    const std::uint32_t node = order_[at_];
    if (known[node] != strategy_ && !ascent.messages().is_excluded(space_.offset(node) + strategy_)) return true;
    ++strategy_;
  }
  return false;
}

Probing::Outcome Probing::probe(PriceAscent& ascent, double upper, const std::vector<std::uint32_t>& known) {
  Outcome outcome;
  if (!advance(ascent, known)) return outcome;
  const std::uint32_t node = order_[at_];
  const std::uint32_t strategy = strategy_++;
  outcome.changing = at_ < changing_;
  const int most_steps = outcome.changing ? std::max(kChangingSteps, most_steps_) : most_steps_;
  std::vector<std::size_t> others;
  for (std::uint32_t s = 0; s < space_.domain(node); ++s) {
    if (s != strategy) others.push_back(space_.offset(node) + s);
  }
  PriceAscent trial = ascent.without(others);
  double before = trial.bound();
  for (int step = 0; step < most_steps && trial.bound() <= upper; ++step) {
    trial.step(upper);
    if (step % kLook != kLook - 1) continue;
    const double gain = trial.bound() - before;
    before = trial.bound();
    if (trial.bound() + gain * static_cast<double>(most_steps - step) / kLook <= upper) break;
  }
  work_ += trial.work();
  if (trial.bound() > upper) {
    ascent.forbid(space_.offset(node) + strategy);
    outcome.excluded = true;
  } else {
    outcome.choice = trial.choice();
  }
  return outcome;
}

}  // namespace meshwright
