#include "path_averages.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "meshwright/ticks.h"

namespace meshwright {

namespace {

constexpr int kMostAverages = 12;
constexpr double kCloseEnough = 0.001;

// All that is computed; the forward and what is reduced behind it; what is gathered and what is reduced. The updates end each of them.
PathTable natural_average(const StepPlaces& places) {
  PathTable average(places.count());
  for (std::size_t place = 0; place < places.count(); ++place) {
    const bool updates = place + 1 == places.count(), backward = !updates && place > places.stretches;
    if (updates) average[place][kComputeRow] = 1;
    else if (backward) average[place][kComputeRow] = average[place][kSentRow] = 0.5;
    else average[place][kComputeRow] = 0.75, average[place][kGatheredRow] = 0.25;
  }
  return average;
}

}  // namespace

PathAverages::PathAverages(const StepPlaces& places) : places_(places), anchor_(natural_average(places)) {}

// The first round trusts the one plan that there is, if it is near what the objective says.
PathTable PathAverages::next() {
  PathTable average = best_average(places_, plans_);
  double most = std::numeric_limits<double>::infinity(), computing = 0;
  for (const PathTable& plan : plans_) most = std::min(most, length(plan, average));
  most_seconds_ = to_seconds(static_cast<TickSum>(most));
  for (const auto& place : average) computing += place[kComputeRow];
  const double trust = rounds_ > 0 ? 0.5 : computing >= 0.9 * static_cast<double>(average.size()) ? 0.95 : 0.4;
  for (std::size_t place = 0; place < average.size(); ++place) {
    for (std::size_t row = 0; row < kPathRows; ++row) average[place][row] = trust * average[place][row] + (1 - trust) * anchor_[place][row];
  }
  return average;
}

void PathAverages::prove(const PathTable& average, double seconds) {
  const bool is_poor_first = ++rounds_ == 1 && seconds < 0.5 * most_seconds_;
  if (seconds > bound_seconds_) {
    bound_seconds_ = seconds;
    if (!is_poor_first) anchor_ = average;
  }
  done_ = rounds_ == kMostAverages || bound_seconds_ >= (1 - kCloseEnough) * most_seconds_;
}

}  // namespace meshwright
