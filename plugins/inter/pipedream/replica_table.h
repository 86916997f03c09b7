// The table A(j, m) of PipeDream's dynamic program.
#pragma once

#include <cstdint>
#include <vector>

#include "downsets.h"
#include "meshwright/placement.h"

namespace meshwright {

struct ReplicaStage {
  std::uint32_t before = 0;  // downsets: the stage is what the second has more
  std::uint32_t after = 0;
  std::uint32_t replicas = 1;
};

class ReplicaTable {
 public:
  // Both outlive the table.
  ReplicaTable(const ReplicaProblem& problem, const Downsets& downsets);

  // The stages of the whole graph on all devices, the slowest as fast as can be, in the order of data.
  std::vector<ReplicaStage> best_stages();

 private:
  struct Origin {
    std::uint32_t before = 0;
    std::uint32_t replicas = 0;
  };

  [[nodiscard]] std::size_t at(std::uint32_t set, std::uint32_t devices) const {
    return std::size_t{set} * (problem_.devices + 1) + devices;
  }
  [[nodiscard]] double stage_seconds(std::uint32_t before, std::uint32_t after, std::uint32_t replicas) const;
  void add_stage(std::uint32_t before, std::uint32_t after);
  void grow_from(std::uint32_t before);

  const ReplicaProblem& problem_;
  const Downsets& downsets_;
  std::vector<double> seconds_, parameter_bytes_, handed_on_;  // by downset
  std::vector<double> best_;                                   // by downset and devices
  std::vector<Origin> origins_;
};

}  // namespace meshwright
