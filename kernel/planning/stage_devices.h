// Which devices of a cluster each group of a pipeline's stages has, one group behind the other, and what joins one to another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/cost.h"
#include "meshwright/graph.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/result.h"

namespace meshwright {

struct StageLink {
  double latency_seconds = 0;
  double seconds_per_byte = 0;  // of one device's, while all of its stage send
};

class StageDevices {
 public:
  // By group how many. Errors: bad_input where they are not all that the cluster has, or those of a group are no part of it (cluster_range).
  static Result<StageDevices> make(const Cluster& cluster, const std::vector<std::int64_t>& devices);
  // As many in each. Errors: bad_input also where the devices don't divide evenly.
  static Result<StageDevices> even(const Cluster& cluster, std::uint32_t groups);
  // Those that a plan has, whose stages follow each other along the model. Errors: bad_input also where stages that share devices have unlike numbers.
  static Result<StageDevices> of(const Cluster& cluster, const PipelinePlan& plan);

  [[nodiscard]] std::uint32_t groups() const { return static_cast<std::uint32_t>(clusters_.size()); }
  // The devices of a group as a cluster of their own.
  [[nodiscard]] const Cluster& cluster(std::uint32_t group) const { return clusters_[group]; }
  [[nodiscard]] std::int64_t devices(std::uint32_t group) const { return clusters_[group].devices(); }
  [[nodiscard]] std::int64_t first(std::uint32_t group) const { return first_[group]; }  // its first device
  [[nodiscard]] std::vector<std::int64_t> counts() const;  // by group: how many devices

  // What a device of `to` waits for its part of what `from` sends, over the slowest link between devices at the same place of both. A group of fewer devices sends more of each.
  [[nodiscard]] StageLink link(std::uint32_t from, std::uint32_t to) const;
  // The slowest one from a group to the next, of the whole of what it sends.
  [[nodiscard]] StageLink slowest_link() const;

 private:
  StageDevices(const Cluster& cluster, std::vector<Cluster> clusters);
  [[nodiscard]] const LinkLevel* level_between(std::int64_t a, std::int64_t b) const;

  Cluster cluster_;
  std::vector<Cluster> clusters_;
  std::vector<std::int64_t> first_;  // by group: its first device
};

// "4,2,1,1": by group how many. Errors: bad_input for anything but numbers above 0.
Result<std::vector<std::int64_t>> parse_stage_devices(const std::string& text);
std::string stage_devices_text(const std::vector<std::int64_t>& devices);

// The clock of another device.
CostProfile profile_on(CostProfile profile, const DeviceSpec& device, const TrainingSettings& training);

// What the program of a stage is made and priced with: the profile of its devices, with the slowest link to stages that it exchanges values with. `groups` by stage.
CostProfile profile_of_stage(CostProfile profile, const StageDevices& devices, std::span<const std::uint32_t> groups, const StagePart& part, const Graph& stage, const TrainingSettings& training);

}  // namespace meshwright
