// The dynamic program over downsets, below a bound.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "downsets.h"
#include "load_graph.h"

namespace meshwright {

struct LoadDevices {
  std::uint32_t accelerators = 0;
  std::uint32_t hosts = 0;
  double accelerator_bytes = 0;
};

struct LoadStage {
  std::uint32_t before = 0;  // downsets: the stage is what the second has more
  std::uint32_t after = 0;
  bool host = false;
};

struct LoadStages {
  double load = std::numeric_limits<double>::infinity();  // infinite: there are none below the bound
  std::vector<LoadStage> stages;                           // in the order of data
};

class LoadSearch {
 public:
  // All outlive the search.
  LoadSearch(const LoadGraph& graph, const Downsets& downsets, const LoadDevices& devices);

  // No stages have a lower largest load.
  [[nodiscard]] double lower_bound() const { return lower_bound_; }

  // The stages with the least largest load, if that is below `bound`. Adds its steps to `steps`, and gives up, with
  // nothing found, where those are more than `most_steps`.
  LoadStages best_below(double bound, std::uint64_t& steps, std::uint64_t most_steps);

 private:
  struct Arrival {
    std::uint32_t before = 0;
    bool host = false;
  };

  [[nodiscard]] std::size_t cells() const { return (devices_.accelerators + 1) * (devices_.hosts + 1); }
  [[nodiscard]] std::size_t cell(std::uint32_t accelerators, std::uint32_t hosts) const {
    return hosts * (devices_.accelerators + 1) + accelerators;
  }
  [[nodiscard]] bool may_finish(std::uint32_t set, std::uint32_t accelerators, std::uint32_t hosts) const;
  [[nodiscard]] bool has_states(std::uint32_t set) const;
  void grow(std::uint32_t set, std::uint64_t& steps);
  void add_piece(std::uint32_t piece);
  void drop_piece(std::uint32_t piece);
  void arrive(std::uint32_t set);
  [[nodiscard]] LoadStages trace() const;

  const LoadGraph& graph_;
  const Downsets& downsets_;
  LoadDevices devices_;
  double lower_bound_ = 0;
  double host_rate_ = 0;  // accelerator seconds that a host's second can replace, at most
  double bound_ = 0;
  std::vector<double> seconds_;   // accelerator seconds of all pieces in each downset
  std::vector<double> best_;      // [set * cells + cell]: the least largest load so far
  std::vector<Arrival> arrivals_;

  // The stage that is being grown, which begins behind `before_`.
  std::uint32_t before_ = 0;
  double accelerator_seconds_ = 0;
  double host_seconds_ = 0;
  double bytes_ = 0;
  double crossing_ = 0;  // of values that some of the stage's pieces touch and some others
  double behind_ = 0;    // the part of it that earlier stages touch, which nothing that is added can undo
  std::uint32_t host_only_ = 0;
  std::vector<std::uint32_t> touched_;  // by value: pieces of the stage
  std::vector<bool> earlier_;           // by value: an earlier stage touches it
  std::vector<std::uint32_t> seen_;     // by downset: the last `before_` from which it was reached
};

}  // namespace meshwright
