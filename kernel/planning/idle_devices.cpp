#include "idle_devices.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace meshwright {

namespace {

constexpr double kSameObjective = 1e-9;  // relative: sums in another order

std::int64_t devices_of_stage(const PlacementStage& stage) { return std::int64_t{stage.replicas} * stage.tensor; }

// Its nodes [from, to).
PlacementStage cut_part(const PlacementStage& stage, std::size_t from, std::size_t to) {
  PlacementStage part = stage;
  const auto cut = [&](std::vector<std::uint32_t>& list) {
    if (!list.empty()) list = {list.begin() + static_cast<std::ptrdiff_t>(from), list.begin() + static_cast<std::ptrdiff_t>(to)};
  };
  cut(part.nodes);
  cut(part.variants);
  return part;
}

// The stages with that one cut in two where its parts are most alike; nothing where each cut costs more than `most`.
std::optional<std::vector<PlacementStage>> cut_in_two(const PlacementProblem& problem, const std::vector<PlacementStage>& stages, std::size_t at, double most) {
  std::optional<std::vector<PlacementStage>> best;
  double least = 0;
  const PlacementStage& whole = stages[at];
  for (std::size_t count = 1; count < whole.nodes.size(); ++count) {
    std::vector<PlacementStage> tried = stages;
    tried[at] = cut_part(whole, 0, count);
    tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(at) + 1, cut_part(whole, count, whole.nodes.size()));
    const Result<PlacementCost> cost = evaluate(problem, tried);
    if (!cost || cost->objective > most) continue;
    const double longer = std::max(cost->seconds[at], cost->seconds[at + 1]);
    if (best && longer >= least) continue;
    best = std::move(tried);
    least = longer;
  }
  return best;
}

// Of the longest stage that can be cut; nothing where none can.
std::optional<std::vector<PlacementStage>> cut_one(const PlacementProblem& problem, const std::vector<PlacementStage>& stages, std::int64_t idle, double most) {
  const Result<PlacementCost> cost = evaluate(problem, stages);
  if (!cost) return std::nullopt;
  std::vector<std::size_t> order(stages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t stage) { return cost->seconds[stage]; });
  for (const std::size_t stage : order) {
    if (stages[stage].host || devices_of_stage(stages[stage]) > idle) continue;
    if (std::optional<std::vector<PlacementStage>> cut = cut_in_two(problem, stages, stage, most)) return cut;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t devices_of(const PlacementAnswer& answer) {
  std::int64_t devices = 0;
  for (const PlacementStage& stage : answer.stages) devices += devices_of_stage(stage);
  return devices;
}

PlacementAnswer with_idle_devices_used(const PlacementProblem& problem, PlacementAnswer answer, std::int64_t devices) {
  const double most = answer.objective * (1 + kSameObjective);
  while (devices_of(answer) < devices) {
    std::optional<std::vector<PlacementStage>> cut = cut_one(problem, answer.stages, devices - devices_of(answer), most);
    if (!cut) break;
    answer.stages = std::move(*cut);
  }
  return answer;
}

}  // namespace meshwright
