#include "piper.h"

#include <algorithm>
#include <cmath>

#include "layer_search.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostDownsets = 10'000;  // of which each pair may be a stage
constexpr std::size_t kMostStates = 200'000'000;  // downsets times replicas behind them
constexpr double kRoomForAll = 1e60;         // bytes
constexpr double kStep = 1.15;               // from one guess of the time to the next
constexpr double kNear = 1e-9;
constexpr double kLess = 1 - 1e-12;

// Guesses from the lower bound upwards, then halves what is between a guess that is too short and the best stages so
// far, and at last asks for anything shorter than these.
std::optional<FoundLayers> search_layers(LayerSearch& search) {
  double too_short = search.lower_bound() * kLess;
  std::optional<FoundLayers> best;
  for (double guess = search.lower_bound() * kStep; !best; guess *= kStep) {
    const bool last = !(guess < search.upper_bound()) || guess <= 0;
    best = search.stages_within(last ? search.upper_bound() : guess);
    if (!best && last) return std::nullopt;
    if (!best) too_short = guess;
  }
  while (best->seconds > too_short * (1 + kNear) && best->seconds > 0) {
    const bool near = best->seconds <= too_short * (1 + 2 * kNear);
    const double guess = near ? best->seconds * kLess : 0.5 * (too_short + best->seconds);
    std::optional<FoundLayers> better = search.stages_within(guess);
    if (better) {
      best = std::move(better);
    } else if (near) {
      return best;
    } else {
      too_short = guess;
    }
  }
  std::optional<FoundLayers> better = best->seconds > 0 ? search.stages_within(best->seconds * kLess) : std::nullopt;
  return better ? better : best;
}

// A layer that fits no device whatever runs beside it, or the devices that are too few for all of them.
std::string why_none(const LayerProblem& problem) {
  const auto text = [](double bytes) { return std::to_string(static_cast<std::int64_t>(std::ceil(std::min(bytes, 9e18)))) + " bytes"; };
  for (const LayerNode& node : problem.nodes) {
    double least = -1;
    for (const LayerDegree& degree : node.degrees) {
      if (degree.tensor > problem.devices) continue;
      for (const LayerVariant& variant : degree.variants) {
        const double bytes = variant.bytes_per_stage_in_flight + variant.fixed_bytes;
        if (least < 0 || bytes < least) least = bytes;
      }
    }
    if (least < 0) return "layer " + node.name + " can't run on " + std::to_string(problem.devices) + " devices or fewer";
    if (least > problem.device_bytes) {
      return "layer " + node.name + " needs at least " + text(least) + " on each device; a device has " + text(problem.device_bytes);
    }
  }
  return "each layer fits a device of " + text(problem.device_bytes) + " alone, but no stages of all layers fit " +
         std::to_string(problem.devices) + " of them";
}

}  // namespace

Result<PlacementAnswer> Piper::do_solve(const PlacementProblem& problem) const {
  const auto* layers = std::get_if<LayerProblem>(&problem);
  if (layers == nullptr) return other_problem("piper", problem);
  const std::size_t most_replicas = std::min(layers->devices, layers->samples);
  const std::size_t most_downsets = std::min(kMostDownsets, kMostStates / (most_replicas + 1));
  if (layers->nodes.size() + 1 > most_downsets) {
    return bad_input("piper counts replicas for each set of layers, which is too much for " +
                     std::to_string(layers->nodes.size()) + " layers and " + std::to_string(most_replicas) +
                     " replicas; take fewer devices, or join layers");
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const PlacementEdge& edge : layers->edges) edges.emplace_back(edge.from, edge.to);
  const Downsets downsets = find_downsets(downset_graph(layers->nodes.size(), edges), most_downsets);
  const std::string method = downsets.complete ? std::to_string(downsets.size()) + " downsets"
                                               : "stages along one order of the nodes, since there are too many downsets";
  const auto answer_by = [&](FoundLayers&& found, bool exact) {
    PlacementAnswer answer;
    answer.status = exact && downsets.complete ? SolveStatus::optimal : SolveStatus::heuristic;
    answer.objective = found.seconds;
    answer.stages = std::move(found.stages);
    answer.method = method + (exact ? "" : ", with too many ways to run a stage to keep all");
    return answer;
  };

  // As if memory did not bind: nothing is faster, and often it fits.
  LayerProblem roomy = *layers;
  roomy.device_bytes = kRoomForAll;
  LayerSearch roomy_search(roomy, downsets);
  std::optional<FoundLayers> fastest = search_layers(roomy_search);
  const bool bound = fastest && roomy_search.exact();
  if (bound && evaluate(problem, fastest->stages)) return answer_by(std::move(*fastest), true);

  LayerSearch search(*layers, downsets);
  std::optional<FoundLayers> found = search_layers(search);
  if (found) {
    const bool reached = bound && found->seconds <= fastest->seconds;
    return answer_by(std::move(*found), search.exact() || reached);
  }
  PlacementAnswer answer;
  answer.status = SolveStatus::infeasible;
  const bool proven = search.exact() && downsets.complete;
  answer.binding = why_none(*layers) + (proven ? "" : "; not all ways were tried, since there are too many");
  return answer;
}

MESHWRIGHT_PLUGIN("inter", "piper", "0.1.0", "Apache-2.0",
                  "Tarnawski et al. 2021: stages, replicas, tensor degrees and recomputation, exact", nullptr, nullptr, 0,
                  (create_plugin<InterSolver, Piper>), destroy_plugin<InterSolver>)

}  // namespace meshwright
