// The ways in which the layers of one stage can run, as far as none is better than another in all that counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/placement.h"

namespace meshwright {

// Sums over the layers of a stage. With d replicas it takes seconds / d + 4 (d - 1) parameter_bytes / (d N B).
struct LayerLabel {
  double seconds = 0;          // computing, and what crosses the stage's borders, of one replica alone
  double parameter_bytes = 0;
  double bytes_per_stage_in_flight = 0;
  double fixed_bytes = 0;
  std::uint32_t from = 0;     // the label without the last layer
  std::uint32_t variant = 0;  // of the last layer
};

class LayerLabels {
 public:
  explicit LayerLabels(const LayerProblem& problem);

  // For the stage of `nodes` (ascending) with tensor degree `tensor`: the labels that fit a device with one stage in
  // flight, by seconds; empty if none does, or a layer lacks the degree.
  std::vector<LayerLabel> find(std::span<const std::uint32_t> nodes, std::uint32_t tensor);

  // Whether `find` keeps few labels from now on, since it has compared too many.
  [[nodiscard]] bool thin() const;

  // The variant of each node in the label number `label` of what `find` gave when `thin` was what is said.
  std::vector<std::uint32_t> variants(std::span<const std::uint32_t> nodes, std::uint32_t tensor, std::uint32_t label, bool thin);

  // Whether no stage had more labels than were kept.
  [[nodiscard]] bool exact() const { return exact_; }

 private:
  using Layers = std::vector<std::vector<LayerLabel>>;  // labels of the first node, of the first two ...

  [[nodiscard]] const LayerDegree* degree(std::uint32_t node, std::uint32_t tensor) const;
  [[nodiscard]] std::vector<LayerLabel> node_labels(std::uint32_t node, const LayerDegree& degree);
  void keep_fastest_if_roomy(Layers& choices) const;
  Layers find_layers(std::span<const std::uint32_t> nodes, std::uint32_t tensor, bool thin);

  const LayerProblem& problem_;
  std::vector<std::vector<std::uint32_t>> inputs_, outputs_;  // by node: its edges
  std::vector<bool> inside_;                                   // the stage that is looked at
  std::uint64_t comparisons_ = 0;
  bool exact_ = true;
};

}  // namespace meshwright
