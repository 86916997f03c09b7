#include "max_load.h"

#include <algorithm>
#include <optional>

#include "load_search.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostIdeals = 1'000'000;
constexpr std::size_t kMostStates = 100'000'000;           // ideals times numbers of devices
constexpr std::size_t kMostBits = std::size_t{1} << 31;    // ideals times pieces
constexpr std::uint64_t kMostSteps = 20'000'000'000;       // a few minutes
// Bounds that are tried, as parts of the way from the lower bound to the load of stages along one order of the nodes.
constexpr double kTries[] = {0.05, 0.12, 0.25, 0.5};
constexpr double kAbove = 1 + 1e-12;

PlacementAnswer answer_of(const LoadGraph& graph, const Downsets& downsets, const LoadStages& found) {
  PlacementAnswer answer;
  answer.objective = found.load;
  for (const LoadStage& stage : found.stages) {
    const std::vector<std::uint32_t> before = downsets.nodes_of(stage.before), after = downsets.nodes_of(stage.after);
    std::vector<std::uint32_t> pieces;
    std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(pieces));
    PlacementStage placed;
    placed.host = stage.host;
    for (const std::uint32_t piece : pieces) {
      placed.nodes.insert(placed.nodes.end(), graph.pieces[piece].nodes.begin(), graph.pieces[piece].nodes.end());
    }
    std::sort(placed.nodes.begin(), placed.nodes.end());
    answer.stages.push_back(std::move(placed));
  }
  return answer;
}

PlacementAnswer no_answer(const LoadProblem& problem, bool proven) {
  PlacementAnswer answer;
  answer.status = SolveStatus::infeasible;
  answer.binding = std::to_string(problem.accelerators) + " accelerators of " +
                   std::to_string(static_cast<std::int64_t>(std::min(problem.accelerator_bytes, 9e18))) + " bytes and " +
                   std::to_string(problem.hosts) + " hosts hold no contiguous stages of all nodes";
  if (!proven) answer.binding += " along one order of the nodes; the graph has too many ideals to try all";
  return answer;
}

// No more devices than pieces can be of use.
LoadDevices useful_devices(const LoadProblem& problem, std::size_t pieces) {
  const auto most = static_cast<std::uint32_t>(pieces);
  return {std::min(problem.accelerators, most), std::min(problem.hosts, most), problem.accelerator_bytes};
}

// Stages along one order of the nodes: a quick upper bound.
std::optional<LoadStages> along_one_order(const LoadGraph& graph, const Downsets& chain, const LoadDevices& devices) {
  LoadSearch search(graph, chain, devices);
  std::uint64_t steps = 0;
  LoadStages found = search.best_below(std::numeric_limits<double>::infinity(), steps, kMostSteps);
  if (found.stages.empty()) return std::nullopt;
  return found;
}

class MaxLoadRun {
 public:
  explicit MaxLoadRun(const LoadProblem& problem)
      : problem_(problem),
        graph_(make_load_graph(problem)),
        downset_graph_(downset_graph(graph_.pieces.size(), graph_.edges)),
        devices_(useful_devices(problem, graph_.pieces.size())) {}

  PlacementAnswer run() {
    const Downsets chain = find_downsets(downset_graph_, 0);
    const std::optional<LoadStages> first = along_one_order(graph_, chain, devices_);
    const std::size_t cells = std::size_t{devices_.accelerators + 1} * (devices_.hosts + 1);
    const std::size_t most = std::min({kMostIdeals, kMostStates / cells, kMostBits / graph_.pieces.size()});
    const Downsets all = find_downsets(downset_graph_, most);
    if (!all.complete) {
      if (!first) return no_answer(problem_, false);
      PlacementAnswer answer = answer_of(graph_, chain, *first);
      answer.method = "stages along one order of the nodes, since there are too many ideals";
      return answer;
    }
    LoadSearch search(graph_, all, devices_);
    const LoadStages found = search_upwards(search, first ? first->load : std::numeric_limits<double>::infinity());
    const std::string ideals = std::to_string(all.size()) + " ideals of " + std::to_string(graph_.pieces.size()) + " pieces";
    if (found.stages.empty() && !first) return no_answer(problem_, !gave_up_);
    PlacementAnswer answer = found.stages.empty() ? answer_of(graph_, chain, *first) : answer_of(graph_, all, found);
    answer.status = gave_up_ ? SolveStatus::heuristic : SolveStatus::optimal;
    answer.method = gave_up_ ? ideals + ", given up: stages along one order of the nodes" : ideals;
    return answer;
  }

 private:
  // What is found below a bound is the best of all.
  LoadStages search_upwards(LoadSearch& search, double known) {
    std::uint64_t steps = 0;
    const double lowest = search.lower_bound();
    std::vector<double> bounds;
    if (known < std::numeric_limits<double>::infinity()) {
      for (const double part : kTries) bounds.push_back((lowest + part * (known - lowest)) * kAbove);
    }
    bounds.push_back(known);
    for (const double bound : bounds) {
      LoadStages found = search.best_below(bound, steps, kMostSteps);
      gave_up_ = steps > kMostSteps;
      if (!found.stages.empty() || gave_up_) return found;
    }
    return {};
  }

  const LoadProblem& problem_;
  LoadGraph graph_;
  DownsetGraph downset_graph_;
  LoadDevices devices_;
  bool gave_up_ = false;
};

}  // namespace

Result<PlacementAnswer> MaxLoad::do_solve(const PlacementProblem& problem) const {
  const auto* load = std::get_if<LoadProblem>(&problem);
  if (load == nullptr) return other_problem("max_load", problem);
  const double nodes = static_cast<double>(load->nodes.size());
  const double cells = (std::min<double>(nodes, load->accelerators) + 1) * (std::min<double>(nodes, load->hosts) + 1);
  if (nodes * cells > static_cast<double>(kMostStates)) {
    return bad_input("max_load counts devices for each set of nodes, which is too much for " +
                     std::to_string(load->nodes.size()) + " nodes, " + std::to_string(load->accelerators) +
                     " accelerators and " + std::to_string(load->hosts) + " hosts; take fewer devices");
  }
  return MaxLoadRun(*load).run();
}

MESHWRIGHT_PLUGIN("inter", "max_load", "0.1.0", "Apache-2.0",
                  "Tarnawski et al. 2020: contiguous stages with the least largest load, exact", nullptr, nullptr, 0,
                  (create_plugin<InterSolver, MaxLoad>), destroy_plugin<InterSolver>)

}  // namespace meshwright
