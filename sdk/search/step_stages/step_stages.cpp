#include "step_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace meshwright {

namespace {

constexpr double kStepRoundOff = 1e-12;  // relative: sums of bytes in another order
constexpr double kBandRoundOff = 1e-9;   // of bounds, which are sums in another order too

std::string bytes_text(double bytes) { return std::to_string(static_cast<std::int64_t>(std::ceil(std::min(bytes, 9e18)))) + " bytes"; }

// Whether ways' devices can be all that there are, one behind the other.
bool can_cover(const StepStages& stages) {
  std::vector<bool> reached(stages.problem().devices + 1, false);
  reached[0] = true;
  for (std::uint32_t first = 0; first < stages.problem().devices; ++first) {
    if (!reached[first]) continue;
    for (const StageSize& size : stages.sizes()) {
      if (std::ranges::binary_search(size.firsts, first)) reached[first + size.devices] = true;
    }
  }
  return reached.back();
}

// A reason that holds whatever was tried; "" if none is known.
std::string proven_reason(const StepProblem& problem) {
  const StepStages stages(problem);
  if (!can_cover(stages)) return "the ways to run a stage are of numbers of devices that do not make " + std::to_string(problem.devices) + " devices, one behind the other, with no group of devices torn";
  for (std::uint32_t node = 0; node < stages.nodes(); ++node) {
    double least = std::numeric_limits<double>::infinity();
    for (const StageSize& size : stages.sizes()) {
      for (const std::uint32_t way : size.ways) {
        const StepCost& cost = problem.ways[way].nodes[node];
        least = std::min(least, cost.resident_bytes + cost.saved_bytes + cost.passing_bytes);
      }
    }
    if (least > stages.device_bytes()) return problem.nodes[node].name + " needs at least " + bytes_text(least) + " on each device; a device has " + bytes_text(problem.device_bytes);
  }
  return "";
}

}  // namespace

StepStages::StepStages(const StepProblem& problem) : problem_(problem) {
  std::map<std::uint32_t, StageSize> sizes;
  for (std::uint32_t way = 0; way < problem.ways.size(); ++way) {
    const std::uint32_t devices = problem.ways[way].devices;
    if (devices > problem.devices) continue;
    sizes[devices].devices = devices;
    sizes[devices].ways.push_back(way);
  }
  for (auto& [devices, size] : sizes) {
    for (std::uint32_t first = 0; first + devices <= problem.devices; ++first) {
      if (are_together(problem.groups, first, devices)) size.firsts.push_back(first);
    }
    if (!size.firsts.empty()) sizes_.push_back(std::move(size));
  }
  for (const StepWay& way : problem.ways) {
    std::vector<StageSums>& before = before_.emplace_back(1);
    for (const StepCost& cost : way.nodes) {
      const StageSums& last = before.back();
      before.push_back({last.forward + cost.forward_seconds, last.backward + cost.backward_seconds, last.once + cost.once_seconds, last.resident + cost.resident_bytes, last.saved + cost.saved_bytes, 0});
    }
  }
  for (auto* least : {&least_forward_, &least_backward_, &least_seconds_, &least_work_}) least->assign(1, 0);
  for (std::uint32_t node = 0; node < nodes(); ++node) {
    double forward = std::numeric_limits<double>::infinity(), backward = forward, seconds = forward, work = forward;
    for (const StageSize& size : sizes_) {
      for (const std::uint32_t way : size.ways) {
        const StepCost& cost = problem.ways[way].nodes[node];
        const double both = cost.forward_seconds + cost.backward_seconds;
        forward = std::min(forward, cost.forward_seconds);
        backward = std::min(backward, cost.backward_seconds);
        seconds = std::min(seconds, both + cost.once_seconds / problem.microbatches);
        work = std::min(work, both * size.devices);
      }
    }
    least_forward_.push_back(least_forward_.back() + forward);
    least_backward_.push_back(least_backward_.back() + backward);
    least_seconds_.push_back(least_seconds_.back() + seconds);
    least_work_.push_back(least_work_.back() + work);
  }
}

StageSums StepStages::sums(std::uint32_t way, std::uint32_t from, std::uint32_t to) const {
  const StageSums &a = before_[way][from], &b = before_[way][to];
  return {b.forward - a.forward, b.backward - a.backward, b.once - a.once, b.resident - a.resident, b.saved - a.saved, 0};
}

double StepStages::device_bytes() const { return problem_.device_bytes * (1 + kStepRoundOff); }

double StepStages::least_pace() const {
  double pace = least_work_.back() / problem_.devices;
  for (std::uint32_t node = 0; node < nodes(); ++node) {
    double least = std::numeric_limits<double>::infinity();
    for (const StageSize& size : sizes_) {
      for (const std::uint32_t way : size.ways) least = std::min(least, problem_.ways[way].nodes[node].forward_seconds + problem_.ways[way].nodes[node].backward_seconds);
    }
    pace = std::max(pace, least);
  }
  return pace;
}

double StepStages::most_pace() const {
  double most = 0;
  for (const StageSize& size : sizes_) {
    for (const std::uint32_t way : size.ways) most = std::max(most, before_[way].back().both() + before_[way].back().once / problem_.microbatches);
  }
  return most;
}

StepStages::Band StepStages::band(std::uint32_t node, double pace) const {
  if (node == 0) return {0, 1};
  if (node == nodes()) return {problem_.devices, problem_.devices + 1};
  const double devices = problem_.devices, before = least_work_[node], behind = least_work_.back() - before;
  Band band{1, problem_.devices};
  if (pace < std::numeric_limits<double>::infinity() && pace > 0) {
    const double least = before / pace * (1 - kBandRoundOff), most = devices - behind / pace * (1 - kBandRoundOff);
    if (most < least) return {};
    band.begin = std::max(band.begin, static_cast<std::uint32_t>(std::ceil(std::min(least, devices))));
    band.end = std::min(band.end, static_cast<std::uint32_t>(std::floor(std::max(most, 0.0))) + 1);
  }
  return band;
}

PlacementStage placed_stage(const StepProblem& problem, std::uint32_t way, std::uint32_t from, std::uint32_t to) {
  PlacementStage stage;
  for (std::uint32_t node = from; node < to; ++node) stage.nodes.push_back(node);
  stage.tensor = problem.ways[way].devices;
  stage.way = way;
  return stage;
}

FlightClasses::FlightClasses(const StepProblem& problem, std::size_t most) {
  const std::size_t stages = std::min<std::size_t>(problem.nodes.size(), problem.devices), all = std::min<std::size_t>(stages, problem.microbatches);
  for (std::size_t of = 0; of < std::min(all, most); ++of) in_flight_.push_back(static_cast<double>(of + 1));
  exact_ = in_flight_.size() == all;
  in_flight_.back() = static_cast<double>(all);
}

PlacementAnswer no_stages(const StepProblem& problem, bool all_tried) {
  PlacementAnswer answer;
  answer.status = SolveStatus::infeasible;
  answer.binding = proven_reason(problem);
  if (!answer.binding.empty()) return answer;
  answer.binding = "each node fits a device of " + bytes_text(problem.device_bytes) + " alone, but no stages of all nodes fit " + std::to_string(problem.devices) + " devices";
  if (!all_tried) answer.binding += "; not all stages were tried, since there are too many";
  return answer;
}

}  // namespace meshwright
