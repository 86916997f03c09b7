// Whether stages exist that all take at most a given time, and which of those need the fewest devices.
//
// With the time guessed, the table of the paper, dp(downset, devices, replicas) = time, becomes
// fewest(downset, replicas) = devices: of the stages behind the downset, whose replicas together are just so many. How
// many stages in flight a stage may have follows from its labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "downsets.h"
#include "layer_labels.h"

namespace meshwright {

struct FoundLayers {
  double seconds = 0;                  // of the slowest stage
  std::vector<PlacementStage> stages;  // in the order of data
};

class LayerSearch {
 public:
  // Both outlive the search.
  LayerSearch(const LayerProblem& problem, const Downsets& downsets);

  // No stages have a slowest one that is faster than the first; none is slower than the second.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }
  [[nodiscard]] double upper_bound() const { return upper_bound_; }

  // Stages that take at most `seconds` each, and have the fewest devices of all such; nothing if there are none, or
  // they have more devices than there are.
  std::optional<FoundLayers> stages_within(double seconds);

  // Whether no labels had to be left out.
  [[nodiscard]] bool exact() const { return labels_.exact() && !too_many_; }

 private:
  // A stage between two downsets with one degree of tensor parallelism.
  struct Candidate {
    std::uint32_t after = 0;
    std::uint32_t tensor = 1;
    bool thin = false;  // few of its labels were kept
    std::size_t labels_begin = 0;
    std::size_t labels_end = 0;
  };
  // How such a stage can run within the time that is asked for, with so many replicas.
  struct Option {
    std::uint32_t candidate = 0;
    std::uint32_t replicas = 1;
    std::uint32_t in_flight = 0;  // stages of its own size, at most
  };

  // Makes the candidates that could take no more than `seconds`.
  void prepare(double seconds);
  void add_candidates(std::uint32_t before, double seconds);
  [[nodiscard]] double label_seconds(const LayerLabel& label, std::uint32_t replicas) const;
  [[nodiscard]] std::uint32_t most_in_flight(const Candidate& candidate, std::uint32_t replicas, double seconds) const;
  [[nodiscard]] std::vector<Option> options_of(std::uint32_t before, double seconds) const;
  void relax(std::uint32_t before, const Option& option);
  [[nodiscard]] FoundLayers trace(double seconds, std::uint32_t replicas);
  [[nodiscard]] PlacementStage stage_of(std::uint32_t before, const Option& option, std::uint32_t in_flight, double& slowest);
  [[nodiscard]] std::vector<std::uint32_t> nodes_between(std::uint32_t before, std::uint32_t after) const;
  [[nodiscard]] std::uint32_t* fewest(std::uint32_t set) { return &fewest_[std::size_t{set} * (most_replicas_ + 1)]; }

  const LayerProblem& problem_;
  const Downsets& downsets_;
  LayerLabels labels_;
  std::uint32_t most_replicas_;               // of all stages together
  std::vector<std::uint32_t> replicas_;       // that a stage can have, ascending
  std::vector<std::uint32_t> tensors_;        // degrees that any layer has, ascending
  std::vector<std::vector<double>> seconds_;  // least of each tensor degree and node, without what crosses; infinite: none
  std::vector<std::vector<double>> bytes_;    // the same for one stage in flight
  std::vector<std::vector<std::uint32_t>> sets_;  // nodes by downset
  double lower_bound_ = 0;
  double upper_bound_ = 0;
  double prepared_ = -1;  // candidates that could take no more than this are there
  bool too_many_ = false;
  std::vector<std::size_t> candidate_begin_;  // by the downset before, and the end
  std::vector<Candidate> candidates_;
  std::vector<LayerLabel> all_labels_;
  std::vector<std::uint32_t> fewest_;         // devices, by downset and replicas behind it
};

}  // namespace meshwright
