#include "pipedream.h"

#include <algorithm>
#include <cmath>

#include "meshwright/plugin.h"
#include "replica_table.h"

namespace meshwright {

namespace {

// So that the table is made in about a minute: pairs of downsets times pairs of numbers of devices.
constexpr double kMostWork = 4e10;
constexpr double kMostBits = 2e9;  // downsets times nodes
constexpr double kMostStates = 2e8;  // downsets times devices

std::size_t most_downsets(const ReplicaProblem& problem) {
  const double devices = problem.devices;
  const double nodes = static_cast<double>(problem.nodes.size());
  return static_cast<std::size_t>(std::min(std::sqrt(4 * kMostWork) / devices, kMostBits / nodes));
}

}  // namespace

Result<PlacementAnswer> PipeDream::do_solve(const PlacementProblem& problem) const {
  const auto* replica = std::get_if<ReplicaProblem>(&problem);
  if (replica == nullptr) return other_problem("pipedream", problem);
  const double states = (static_cast<double>(replica->nodes.size()) + 1) * (replica->devices + 1.0);
  if (states > kMostStates || states * states / 4 > 10 * kMostWork) {
    return bad_input("pipedream counts devices for each set of nodes, which is too much for " +
                     std::to_string(replica->nodes.size()) + " nodes and " + std::to_string(replica->devices) +
                     " devices; take fewer devices");
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const PlacementEdge& edge : replica->edges) edges.emplace_back(edge.from, edge.to);
  const Downsets downsets = find_downsets(downset_graph(replica->nodes.size(), edges), most_downsets(*replica));

  PlacementAnswer answer;
  answer.status = downsets.complete ? SolveStatus::optimal : SolveStatus::heuristic;
  answer.method = downsets.complete ? std::to_string(downsets.size()) + " downsets"
                                    : "stages along one order of the nodes, since there are too many downsets";
  for (const ReplicaStage& stage : ReplicaTable(*replica, downsets).best_stages()) {
    const std::vector<std::uint32_t> before = downsets.nodes_of(stage.before), after = downsets.nodes_of(stage.after);
    PlacementStage placed;
    placed.replicas = stage.replicas;
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(placed.nodes));
    answer.stages.push_back(std::move(placed));
  }
  const Result<PlacementCost> cost = evaluate(problem, answer.stages);
  if (!cost) return cost.error();
  answer.objective = cost->objective;
  return answer;
}

MESHWRIGHT_PLUGIN("inter", "pipedream", "0.1.0", "Apache-2.0",
                  "Narayanan et al. 2019: stages and their replicas, exact for one level of a network", nullptr, nullptr, 0,
                  (create_plugin<InterSolver, PipeDream>), destroy_plugin<InterSolver>)

}  // namespace meshwright
