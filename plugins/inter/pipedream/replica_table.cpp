#include "replica_table.h"

#include <algorithm>
#include <limits>

namespace meshwright {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

ReplicaTable::ReplicaTable(const ReplicaProblem& problem, const Downsets& downsets)
    : problem_(problem), downsets_(downsets) {
  std::vector<std::vector<std::uint32_t>> readers(problem.nodes.size());
  for (const PlacementEdge& edge : problem.edges) readers[edge.from].push_back(edge.to);
  std::vector<bool> inside(problem.nodes.size());
  for (std::uint32_t set = 0; set < downsets.size(); ++set) {
    const std::vector<std::uint32_t> nodes = downsets.nodes_of(set);
    for (const std::uint32_t node : nodes) inside[node] = true;
    double seconds = 0, parameters = 0, handed_on = 0;
    for (const std::uint32_t node : nodes) {
      seconds += problem.nodes[node].seconds;
      parameters += problem.nodes[node].parameter_bytes;
      const auto outside = [&](std::uint32_t reader) { return !inside[reader]; };
      if (std::any_of(readers[node].begin(), readers[node].end(), outside)) handed_on += problem.nodes[node].output_bytes;
    }
    for (const std::uint32_t node : nodes) inside[node] = false;
    seconds_.push_back(seconds);
    parameter_bytes_.push_back(parameters);
    handed_on_.push_back(handed_on);
  }
  best_.assign(downsets.size() * (problem.devices + 1), kInfinite);
  origins_.assign(best_.size(), {});
}

double ReplicaTable::stage_seconds(std::uint32_t before, std::uint32_t after, std::uint32_t replicas) const {
  const double m = replicas;
  const double compute = seconds_[after] - seconds_[before];
  const double parameters = parameter_bytes_[after] - parameter_bytes_[before];
  const double seconds = (compute + 4 * (m - 1) * parameters / (problem_.bytes_per_second * m)) / m;
  if (before == 0) return seconds;
  // The whole graph hands nothing on.
  const double moved = std::max(handed_on_[before], handed_on_[after]);
  return std::max(seconds, 2 * moved / (problem_.bytes_per_second * m));
}

// A(after, m) = min over r of max(A(before, m - r), T(before, after, r)). A stage that is no faster than the best answer
// so far is in no better one.
void ReplicaTable::add_stage(std::uint32_t before, std::uint32_t after) {
  const double best = best_.back();
  const double* from = &best_[at(before, 0)];
  double* to = &best_[at(after, 0)];
  for (std::uint32_t replicas = 1; replicas <= problem_.devices; ++replicas) {
    const double seconds = stage_seconds(before, after, replicas);
    if (seconds >= best) continue;
    const std::uint32_t most = before == 0 ? replicas : problem_.devices;  // nothing needs no devices
    for (std::uint32_t devices = replicas; devices <= most; ++devices) {
      const double slowest = std::max(from[devices - replicas], seconds);
      if (slowest >= to[devices]) continue;
      to[devices] = slowest;
      origins_[at(after, devices)] = {before, replicas};
    }
  }
}

void ReplicaTable::grow_from(std::uint32_t before) {
  std::vector<bool> seen(downsets_.size(), false);
  std::vector<std::uint32_t> open = {before};
  for (std::size_t next = 0; next < open.size(); ++next) {
    for (const Downsets::Growth& growth : downsets_.grown(open[next])) {
      if (seen[growth.bigger]) continue;
      seen[growth.bigger] = true;
      open.push_back(growth.bigger);
      add_stage(before, growth.bigger);
    }
  }
}

std::vector<ReplicaStage> ReplicaTable::best_stages() {
  best_[at(0, 0)] = 0;
  add_stage(0, static_cast<std::uint32_t>(downsets_.size() - 1));
  for (std::uint32_t before = 0; before + 1 < downsets_.size(); ++before) grow_from(before);
  std::vector<ReplicaStage> stages;
  auto set = static_cast<std::uint32_t>(downsets_.size() - 1);
  std::uint32_t devices = problem_.devices;
  while (set != 0) {
    const Origin origin = origins_[at(set, devices)];
    stages.push_back({origin.before, set, origin.replicas});
    set = origin.before;
    devices -= origin.replicas;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace meshwright
