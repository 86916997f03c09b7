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

}  // namespace meshwright
