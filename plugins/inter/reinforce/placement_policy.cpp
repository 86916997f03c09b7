#include "placement_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwright {

namespace {

constexpr double kLearningRate = 0.1;  // the paper's, as is the largest norm
constexpr double kLargestNorm = 1;
constexpr double kFirstDecay = 0.9, kSecondDecay = 0.999, kAdamEpsilon = 1e-8;

}  // namespace

PlacementPolicy::PlacementPolicy(std::size_t rows, std::size_t columns)
    : columns_(columns), parameters_(rows * columns + kPolicyFeatures, 0), gradients_(parameters_.size(), 0), first_moments_(parameters_.size(), 0), second_moments_(parameters_.size(), 0) {}

std::size_t PlacementPolicy::choose(std::uint32_t row, std::span<const PolicyOption> options, double number) {
  if (options.size() == 1) return 0;  // nothing to learn
  const std::size_t first = options_.size();
  options_.insert(options_.end(), options.begin(), options.end());
  double largest = -std::numeric_limits<double>::infinity();
  for (const PolicyOption& option : options) {
    double score = parameters_[at(row, option.column)];
    for (std::size_t k = 0; k < kPolicyFeatures; ++k) score += parameters_[shared(k)] * option.features[k];
    probabilities_.push_back(score);
    largest = std::max(largest, score);
  }
  double sum = 0;
  for (std::size_t i = first; i < probabilities_.size(); ++i) sum += probabilities_[i] = std::exp(probabilities_[i] - largest);
  std::size_t chosen = options.size();
  double below = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    double& probability = probabilities_[first + i];
    probability /= sum;
    below += probability;
    if (chosen == options.size() && number < below) chosen = i;
  }
  chosen = std::min(chosen, options.size() - 1);  // where the sum was rounded to less than 1
  choices_.push_back({row, first, options.size(), chosen});
  return chosen;
}

void PlacementPolicy::add_gradient(double weight) {
  for (const Choice& choice : choices_) {
    for (std::size_t i = 0; i < choice.count; ++i) {
      const PolicyOption& option = options_[choice.first + i];
      const double slope = weight * ((i == choice.chosen ? 1 : 0) - probabilities_[choice.first + i]);
      gradients_[at(choice.row, option.column)] += slope;
      for (std::size_t k = 0; k < kPolicyFeatures; ++k) gradients_[shared(k)] += slope * option.features[k];
    }
  }
  choices_.clear();
  options_.clear();
  probabilities_.clear();
}

void PlacementPolicy::descend() {
  double squares = 0;
  for (const double gradient : gradients_) squares += gradient * gradient;
  const double norm = std::sqrt(squares), scale = norm > kLargestNorm ? kLargestNorm / norm : 1;
  first_decay_ *= kFirstDecay;
  second_decay_ *= kSecondDecay;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const double gradient = scale * gradients_[i];
    first_moments_[i] = kFirstDecay * first_moments_[i] + (1 - kFirstDecay) * gradient;
    second_moments_[i] = kSecondDecay * second_moments_[i] + (1 - kSecondDecay) * gradient * gradient;
    const double mean = first_moments_[i] / (1 - first_decay_), spread = std::sqrt(second_moments_[i] / (1 - second_decay_));
    parameters_[i] -= kLearningRate * mean / (spread + kAdamEpsilon);
    gradients_[i] = 0;
  }
}

}  // namespace meshwright
