// The policy that REINFORCE trains: with which probability each of several options is chosen, log-linear in what is seen of it.
//
//   p(option) ∝ exp(θ[row, column] + Σ_k w[k] · features[k])
//
// θ is a table with a row for each thing to be decided, w is shared by all. Mirhoseini et al. 2017 (§3.2) have a sequence-to-sequence network with attention in this place, trained anew for each graph; its decoder
// sees the placements that it has made before, as the features do here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meshwright {

inline constexpr std::size_t kPolicyFeatures = 4;

struct PolicyOption {
  std::uint32_t column = 0;  // no two options of a choice have the same
  std::array<double, kPolicyFeatures> features = {};
};

class PlacementPolicy {
 public:
  PlacementPolicy(std::size_t rows, std::size_t columns);

  // Chooses one of the options, of which there is at least one, by a number from [0, 1), and remembers the choice. Returns its place among them.
  std::size_t choose(std::uint32_t row, std::span<const PolicyOption> options, double number);

  // Adds `weight` · ∇ log p of all choices that are remembered to the sum of gradients, and forgets them.
  void add_gradient(double weight);

  // One step of Adam (Kingma and Ba 2015) down the sum of gradients, scaled to a norm of at most 1; the sum is 0 behind it.
  void descend();

 private:
  struct Choice {
    std::uint32_t row = 0;
    std::size_t first = 0, count = 0;  // in options_ and probabilities_
    std::size_t chosen = 0;            // of them
  };

  [[nodiscard]] std::size_t at(std::uint32_t row, std::uint32_t column) const { return row * columns_ + column; }
  [[nodiscard]] std::size_t shared(std::size_t feature) const { return parameters_.size() - kPolicyFeatures + feature; }

  std::size_t columns_;
  std::vector<double> parameters_;  // the table, and behind it what is shared
  std::vector<double> gradients_, first_moments_, second_moments_;
  double first_decay_ = 1, second_decay_ = 1;  // powers of Adam's β1 and β2
  std::vector<Choice> choices_;
  std::vector<PolicyOption> options_;
  std::vector<double> probabilities_;
};

}  // namespace meshwright
