#include "meshwright/step_paths.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

double length(const PathTable& plan, const PathTable& path) {
  double sum = 0;
  for (std::size_t place = 0; place < plan.size(); ++place) {
    for (std::size_t row = 0; row < kPathRows; ++row) sum += plan[place][row] * path[place][row];
  }
  return sum;
}

PathTable longest_path(const StepPlaces& places, const PathTable& plan) {
  std::vector<std::array<std::size_t, kPathRows>> came_from(plan.size());
  std::array<double, kPathRows> length = plan[0];
  for (std::size_t place = 1; place < plan.size(); ++place) {
    std::array<double, kPathRows> next = {};
    for (std::size_t row = 0; row < kPathRows; ++row) {
      std::size_t& best = came_from[place][row] = row;
      for (std::size_t before = 0; before < kPathRows; ++before) {
        if (places.may_follow(before, row, place) && length[before] > length[best]) best = before;
      }
      next[row] = length[best] + plan[place][row];
    }
    length = next;
  }
  auto row = static_cast<std::size_t>(std::max_element(length.begin(), length.end()) - length.begin());
  PathTable path(plan.size());
  for (std::size_t place = plan.size(); place-- > 0;) {
    path[place][row] = 1;
    row = came_from[place][row];
  }
  return path;
}

// Two players learn from what the other one did: plans by multiplicative weights, paths by the best answer (Freund and Schapire 1999).
PathTable best_average(const StepPlaces& places, std::span<const PathTable> plans) {
  constexpr int kRounds = 2000;
  double most = 0;
  for (const PathTable& plan : plans) most = std::max(most, length(plan, longest_path(places, plan)));
  if (plans.size() == 1 || most == 0) return longest_path(places, plans[0]);
  const auto count = static_cast<double>(plans.size());
  const double rate = std::sqrt(8 * std::log(count) / kRounds) / most;
  std::vector<double> lengths(plans.size(), 0), shares(plans.size(), 1 / count);
  PathTable average(places.count()), mixed(places.count());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t place = 0; place < mixed.size(); ++place) {
      mixed[place] = {};
      for (std::size_t plan = 0; plan < plans.size(); ++plan) {
        for (std::size_t row = 0; row < kPathRows; ++row) mixed[place][row] += shares[plan] * plans[plan][place][row];
      }
    }
    const PathTable path = longest_path(places, mixed);
    for (std::size_t plan = 0; plan < plans.size(); ++plan) lengths[plan] += length(plans[plan], path);
    const double least = *std::min_element(lengths.begin(), lengths.end());
    double sum = 0;
    for (std::size_t plan = 0; plan < plans.size(); ++plan) sum += shares[plan] = std::exp(-rate * (lengths[plan] - least));
    for (double& share : shares) share /= sum;
    for (std::size_t place = 0; place < path.size(); ++place) {
      for (std::size_t row = 0; row < kPathRows; ++row) average[place][row] += path[place][row] / kRounds;
    }
  }
  return average;
}

}  // namespace meshwright
