#include "placements.h"

#include <random>

namespace meshwright {

namespace {

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : numbers_(seed) {}

  // From 0 to most. A distribution of the standard library would differ between libraries.
  std::uint32_t upto(std::uint32_t most) { return static_cast<std::uint32_t>(numbers_() % (most + 1)); }
  bool one_in(std::uint32_t count) { return upto(count - 1) == 0; }

  // Edges from lower to higher nodes.
  std::vector<PlacementEdge> edges(std::uint32_t nodes, std::uint32_t most_bytes) {
    std::vector<PlacementEdge> result;
    for (std::uint32_t to = 1; to < nodes; ++to) {
      for (std::uint32_t from = 0; from < to; ++from) {
        if (one_in(2)) result.push_back({from, to, static_cast<double>(upto(most_bytes))});
      }
    }
    return result;
  }

 private:
  std::mt19937 numbers_;
};

// A backward node for most forward ones, with the edges turned around, and one that has no forward node of its own.
void add_backward(LoadProblem& problem, Draw& draw) {
  const auto forward = static_cast<std::uint32_t>(problem.nodes.size());
  const std::vector<PlacementEdge> edges = problem.edges;
  for (std::uint32_t node = 0; node < forward; ++node) {
    LoadNode back = problem.nodes[node];
    back.accelerator_seconds = draw.upto(4);
    back.backward = true;
    if (draw.one_in(5)) back.group = 100 + node;
    problem.nodes.push_back(back);
    if (draw.one_in(2)) problem.edges.push_back({node, forward + node});
  }
  for (const PlacementEdge& edge : edges) problem.edges.push_back({forward + edge.to, forward + edge.from});
}

}  // namespace

LoadProblem draw_load_problem(std::uint32_t seed) {
  Draw draw(seed);
  LoadProblem problem;
  const bool training = draw.one_in(3);
  const std::uint32_t nodes = training ? 2 + draw.upto(1) : 2 + draw.upto(4);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    LoadNode one;
    one.name = std::to_string(node);
    const bool idle = draw.one_in(4);
    one.accelerator_seconds = idle ? 0 : draw.upto(6);
    one.host_seconds = idle ? 0 : draw.upto(20);
    one.memory_bytes = draw.upto(4);
    one.transfer_seconds = draw.upto(2);
    one.accelerator = !draw.one_in(8);
    one.group = draw.one_in(6) ? draw.upto(node) : node;
    problem.nodes.push_back(one);
  }
  problem.edges = draw.edges(nodes, 0);
  if (training) add_backward(problem, draw);
  problem.accelerators = draw.upto(2) + 1;
  problem.hosts = problem.accelerators == 3 ? 0 : draw.upto(1);
  problem.accelerator_bytes = draw.one_in(2) ? 100 : 3 + draw.upto(8);
  return problem;
}

ReplicaProblem draw_replica_problem(std::uint32_t seed) {
  Draw draw(seed);
  ReplicaProblem problem;
  const std::uint32_t nodes = 1 + draw.upto(4);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    problem.nodes.push_back({std::to_string(node), static_cast<double>(draw.upto(9)), static_cast<double>(draw.upto(9)),
                             static_cast<double>(draw.upto(9))});
  }
  problem.edges = draw.edges(nodes, 0);
  problem.devices = 1 + draw.upto(3);
  problem.bytes_per_second = 1 + draw.upto(7);
  return problem;
}

LayerProblem draw_layer_problem(std::uint32_t seed) {
  Draw draw(seed);
  LayerProblem problem;
  const std::uint32_t nodes = 1 + draw.upto(3);
  problem.edges = draw.edges(nodes, 3);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    LayerNode layer;
    layer.name = std::to_string(node);
    for (const std::uint32_t tensor : {1U, 2U}) {
      if (draw.one_in(8)) continue;
      LayerDegree degree{tensor, {}};
      const std::uint32_t variants = 1 + draw.upto(1);
      for (std::uint32_t i = 0; i < variants; ++i) {
        LayerVariant variant;
        variant.name = std::to_string(i);
        variant.seconds = 2 + draw.upto(8);
        variant.parameter_bytes = draw.upto(6);
        variant.bytes_per_stage_in_flight = draw.upto(3);
        variant.fixed_bytes = draw.upto(3);
        for (const PlacementEdge& edge : problem.edges) {
          if (edge.to == node) variant.input_bytes.push_back(draw.upto(2));
          if (edge.from == node) variant.output_bytes.push_back(draw.upto(2));
        }
        degree.variants.push_back(std::move(variant));
      }
      layer.degrees.push_back(std::move(degree));
    }
    problem.nodes.push_back(std::move(layer));
  }
  problem.devices = 1 + draw.upto(4);
  problem.samples = 1 + draw.upto(5);
  problem.device_bytes = 3 + draw.upto(20);
  problem.bytes_per_second = 1 + draw.upto(3);
  return problem;
}

StepProblem draw_step_problem(StepObjective objective, std::uint32_t seed) {
  Draw draw(seed);
  StepProblem problem;
  problem.objective = objective;
  problem.devices = 1 + draw.upto(7);
  problem.microbatches = 1 + draw.upto(5);
  problem.device_bytes = draw.one_in(2) ? 1000 : 10 + draw.upto(30);
  if (draw.one_in(2)) problem.groups.push_back(draw.one_in(2) ? 2 : 4);
  const std::uint32_t nodes = 1 + draw.upto(4);
  for (std::uint32_t node = 0; node < nodes; ++node) problem.nodes.push_back({std::to_string(node), static_cast<double>(draw.upto(3))});
  for (const std::uint32_t devices : {1U, 2U, 3U, 4U, 8U}) {
    for (std::uint32_t variant = draw.upto(2); variant > 0; --variant) {
      StepWay& way = problem.ways.emplace_back();
      way.name = std::to_string(devices);
      way.devices = devices;
      for (std::uint32_t node = 0; node < nodes; ++node) {
        StepCost& cost = way.nodes.emplace_back();
        cost.forward_seconds = draw.upto(12 / devices) + (draw.one_in(4) ? 0 : 1);
        cost.backward_seconds = draw.upto(20 / devices) + 1;
        cost.once_seconds = draw.one_in(2) ? 0 : draw.upto(4 + 3 * devices);
        cost.resident_bytes = draw.upto(8);
        cost.saved_bytes = draw.upto(4);
        cost.passing_bytes = draw.upto(3);
      }
    }
  }
  if (problem.ways.empty()) problem.ways.push_back({"1", 1, std::vector<StepCost>(nodes, {1, 2, 3, 4, 5, 6})});
  return problem;
}

StepProblem large_step_problem(StepObjective objective, std::uint32_t nodes, std::uint32_t devices, double device_bytes) {
  StepProblem problem;
  problem.objective = objective;
  problem.groups = {8};
  problem.devices = devices;
  problem.microbatches = 64;
  problem.device_bytes = device_bytes;
  for (std::uint32_t node = 0; node < nodes; ++node) problem.nodes.push_back({std::to_string(node), 0.05});
  const auto kind = [&](std::uint32_t node) { return node == 0 ? 0U : node + 1 == nodes ? 3U : 1 + node % 2; };
  const double work[] = {0.3, 1, 1.7, 2.5};
  for (std::uint32_t size = 1; size <= devices; size = size < 8 ? 2 * size : size + 8) {
    if (size > 8 && devices % size != 0) continue;
    for (const bool small : {false, true}) {
      StepWay way{std::to_string(size), size, {}};
      for (std::uint32_t node = 0; node < nodes; ++node) {
        const double share = work[kind(node)] / size, sent = size == 1 ? 0 : (size > 8 ? 0.3 : 0.1) * (1 - 1.0 / size);
        way.nodes.push_back({share + sent, 2 * share + sent + (small ? share : 0), size == 1 ? 0 : 3.0, 16 * work[kind(node)] / (small ? size : 1), (small ? 1 : 6) * work[kind(node)] / size, 1});
      }
      problem.ways.push_back(std::move(way));
    }
  }
  return problem;
}

}  // namespace meshwright
