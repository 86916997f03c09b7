#include <algorithm>
#include <functional>

#include "placements.h"

namespace meshwright {

namespace {

using Stages = std::vector<PlacementStage>;

// Calls `visit` for each way to put nodes into the stages 0, 1, ..., none of them empty, whatever edges say.
void for_each_split(std::size_t nodes, std::size_t most_stages, const std::function<void(Stages&)>& visit) {
  std::vector<std::size_t> stage_of(nodes, 0);
  for (;;) {
    Stages stages(*std::max_element(stage_of.begin(), stage_of.end()) + 1);
    for (std::uint32_t node = 0; node < nodes; ++node) stages[stage_of[node]].nodes.push_back(node);
    if (std::none_of(stages.begin(), stages.end(), [](const PlacementStage& stage) { return stage.nodes.empty(); })) visit(stages);
    std::size_t place = 0;
    while (place < nodes && ++stage_of[place] == most_stages) stage_of[place++] = 0;
    if (place == nodes) return;
  }
}

double objective(const PlacementProblem& problem, const Stages& stages) {
  const Result<PlacementCost> cost = evaluate(problem, stages);
  return cost ? cost->objective : std::numeric_limits<double>::infinity();
}

// Calls `visit` for each choice of replicas and, where the problem has them, tensor degrees of the stages.
void for_each_degrees(Stages& stages, std::size_t first, std::uint32_t devices, std::uint32_t most_tensor, const std::function<void()>& visit) {
  if (first == stages.size()) return visit();
  for (std::uint32_t tensor = 1; tensor <= most_tensor; ++tensor) {
    for (std::uint32_t replicas = 1; replicas * tensor <= devices; ++replicas) {
      stages[first].tensor = tensor;
      stages[first].replicas = replicas;
      for_each_degrees(stages, first + 1, devices - replicas * tensor, most_tensor, visit);
    }
  }
}

// Of the nodes of all stages, counted through: two variants each.
void for_each_variants(Stages& stages, const std::function<void()>& visit) {
  std::vector<std::uint32_t*> choices;
  for (PlacementStage& stage : stages) {
    stage.variants.assign(stage.nodes.size(), 0);
    for (std::uint32_t& variant : stage.variants) choices.push_back(&variant);
  }
  for (std::uint32_t bits = 0; bits < 1U << choices.size(); ++bits) {
    for (std::size_t i = 0; i < choices.size(); ++i) *choices[i] = bits >> i & 1U;
    visit();
  }
}

}  // namespace

double best_objective(const LoadProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  const PlacementProblem any = problem;
  for_each_split(problem.nodes.size(), problem.accelerators + problem.hosts, [&](Stages& stages) {
    for (std::uint32_t hosts = 0; hosts < 1U << stages.size(); ++hosts) {
      for (std::size_t i = 0; i < stages.size(); ++i) stages[i].host = (hosts >> i & 1U) != 0;
      best = std::min(best, objective(any, stages));
    }
  });
  return best;
}

double best_objective(const ReplicaProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  const PlacementProblem any = problem;
  for_each_split(problem.nodes.size(), problem.devices, [&](Stages& stages) {
    for_each_degrees(stages, 0, problem.devices, 1, [&] { best = std::min(best, objective(any, stages)); });
  });
  return best;
}

double best_objective(const LayerProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  const PlacementProblem any = problem;
  for_each_split(problem.nodes.size(), std::min<std::size_t>(problem.devices, problem.nodes.size()), [&](Stages& stages) {
    for_each_degrees(stages, 0, problem.devices, 2, [&] {
      for_each_variants(stages, [&] { best = std::min(best, objective(any, stages)); });
    });
  });
  return best;
}

double best_objective(const StepProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  const PlacementProblem any = problem;
  const auto nodes = static_cast<std::uint32_t>(problem.nodes.size());
  Stages stages;
  const std::function<void(std::uint32_t, std::uint32_t)> visit = [&](std::uint32_t node, std::uint32_t devices) {
    if (node == nodes) {
      best = std::min(best, objective(any, stages));
      return;
    }
    for (std::uint32_t to = node + 1; to <= nodes; ++to) {
      for (std::uint32_t way = 0; way < problem.ways.size(); ++way) {
        const std::uint32_t count = problem.ways[way].devices;
        if (devices + count > problem.devices) continue;
        PlacementStage& stage = stages.emplace_back();
        for (std::uint32_t i = node; i < to; ++i) stage.nodes.push_back(i);
        stage.replicas = count;
        stage.way = way;
        visit(to, devices + count);
        stages.pop_back();
      }
    }
  };
  visit(0, 0);
  return best;
}

}  // namespace meshwright
