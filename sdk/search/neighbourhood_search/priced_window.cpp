#include "priced_window.h"

#include <algorithm>

namespace meshwright {

void PricedWindow::load_rooms(const SearchState& state) {
  state.over().read(begin_, end_, rooms_);
  hold(current_, bytes_);
  for (std::size_t t = 0; t < rooms_.size(); ++t) rooms_[t] = bytes_[t] - rooms_[t];
  work_ += 4 * static_cast<std::int64_t>(rooms_.size());
}

WindowOutcome PricedWindow::search_by_prices(const SearchState& state, std::span<const double> prices, int most_rounds) {
  const double now = std::min(plain_cost(current_), state.penalty());
  prices_.assign(prices.begin() + begin_, prices.begin() + end_);
  before_.assign(prices_.size() + 1, 0);
  bool is_over = false;
  for (int round = 0; round < most_rounds; ++round) {
    double priced_rooms = 0;
    for (std::size_t t = 0; t < prices_.size(); ++t) {
      before_[t + 1] = before_[t] + prices_[t];
      priced_rooms += prices_[t] * static_cast<double>(rooms_[t]);
    }
    const double value = solve(before_) - priced_rooms;
    const double cost = plain_cost(solution_);
    hold(solution_, bytes_);
    bool fits = true;
    double norm = 0;
    for (std::size_t t = 0; t < prices_.size(); ++t) {
      const auto over = static_cast<double>(bytes_[t] - rooms_[t]);
      fits = fits && over <= 0;
      if (over > 0 || prices_[t] > 0) norm += over * over;
    }
    work_ += 6 * static_cast<std::int64_t>(prices_.size());
    if (fits && cost < now) return WindowOutcome::better;
    if (value > now - 1) {
      return fits && cost == now && !std::equal(solution_.begin(), solution_.end(), current_.begin()) ? WindowOutcome::sideways
                                                                                                      : WindowOutcome::none;
    }
    is_over = !fits && cost < now;
    if (norm == 0) break;
    // Polyak's step towards the cost that is to be beaten.
    const double step = (now - value) / norm;
    for (std::size_t t = 0; t < prices_.size(); ++t) {
      prices_[t] = std::max(0.0, prices_[t] + step * static_cast<double>(bytes_[t] - rooms_[t]));
    }
  }
  return is_over ? WindowOutcome::over : WindowOutcome::open;
}

}  // namespace meshwright
