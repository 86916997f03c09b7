#include "layer_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace meshwright {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNoStages = 1U << 30;  // devices; no sum of it and a stage's overflows
constexpr double kRoundOff = 1e-9;
constexpr double kAhead = 1.5;  // candidates are made for so much more time than is asked for
constexpr std::size_t kMostStored = 10'000'000;  // labels of all candidates

double least_of(const LayerDegree& degree, double LayerVariant::*field, double LayerVariant::*other) {
  double least = kInfinite;
  for (const LayerVariant& variant : degree.variants) {
    least = std::min(least, variant.*field + (other == nullptr ? 0 : variant.*other));
  }
  return least;
}

// All that a layer could ever take.
double most_seconds(const LayerProblem& problem, const LayerNode& node) {
  double most = 0;
  for (const LayerDegree& degree : node.degrees) {
    for (const LayerVariant& variant : degree.variants) {
      double bytes = 4 * variant.parameter_bytes;
      for (const double edge : variant.input_bytes) bytes += 2 * edge;
      for (const double edge : variant.output_bytes) bytes += 2 * edge;
      most = std::max(most, variant.seconds + bytes / problem.bytes_per_second);
    }
  }
  return most;
}

}  // namespace

LayerSearch::LayerSearch(const LayerProblem& problem, const Downsets& downsets)
    : problem_(problem), downsets_(downsets), labels_(problem), most_replicas_(std::min(problem.devices, problem.samples)) {
  for (std::uint32_t d = 1; d <= most_replicas_; ++d) {
    if (problem.samples % d == 0) replicas_.push_back(d);
  }
  std::set<std::uint32_t> tensors;
  for (const LayerNode& node : problem.nodes) {
    for (const LayerDegree& degree : node.degrees) {
      if (!degree.variants.empty() && degree.tensor <= problem.devices) tensors.insert(degree.tensor);
    }
  }
  tensors_.assign(tensors.begin(), tensors.end());
  double device_seconds = 0;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    seconds_.emplace_back(tensors_.size(), kInfinite);
    bytes_.emplace_back(tensors_.size(), kInfinite);
    double least = kInfinite;
    for (const LayerDegree& degree : problem.nodes[node].degrees) {
      const auto known = std::find(tensors_.begin(), tensors_.end(), degree.tensor);
      if (known == tensors_.end()) continue;
      const auto place = static_cast<std::size_t>(known - tensors_.begin());
      seconds_[node][place] = least_of(degree, &LayerVariant::seconds, nullptr);
      bytes_[node][place] = least_of(degree, &LayerVariant::bytes_per_stage_in_flight, &LayerVariant::fixed_bytes);
      least = std::min(least, degree.tensor * seconds_[node][place]);
    }
    if (least < kInfinite) device_seconds += least;
    upper_bound_ += most_seconds(problem, problem.nodes[node]);
  }
  for (const PlacementEdge& edge : problem.edges) upper_bound_ += 4 * edge.bytes / problem.bytes_per_second;
  upper_bound_ *= 1 + kRoundOff;
  lower_bound_ = device_seconds / problem.devices;
  for (std::uint32_t set = 0; set < downsets.size(); ++set) sets_.push_back(downsets.nodes_of(set));
}

std::vector<std::uint32_t> LayerSearch::nodes_between(std::uint32_t before, std::uint32_t after) const {
  std::vector<std::uint32_t> nodes;
  std::set_difference(sets_[after].begin(), sets_[after].end(), sets_[before].begin(), sets_[before].end(), std::back_inserter(nodes));
  return nodes;
}

double LayerSearch::label_seconds(const LayerLabel& label, std::uint32_t replicas) const {
  const double d = replicas;
  return label.seconds / d + 4 * (d - 1) * label.parameter_bytes / (d * problem_.samples * problem_.bytes_per_second);
}

void LayerSearch::prepare(double seconds) {
  if (seconds <= prepared_) return;
  prepared_ = seconds >= upper_bound_ ? kInfinite : seconds * kAhead;
  candidates_.clear();
  all_labels_.clear();
  candidate_begin_.clear();
  for (std::uint32_t before = 0; before < downsets_.size(); ++before) {
    candidate_begin_.push_back(candidates_.size());
    add_candidates(before, prepared_);
  }
  candidate_begin_.push_back(candidates_.size());
}

// Goes over the downsets that hold `before`, as far as some tensor degree may fit a device and the time.
void LayerSearch::add_candidates(std::uint32_t before, double seconds) {
  struct Grown {
    std::uint32_t set;
    std::vector<double> seconds, bytes;  // by tensor degree
  };
  std::vector<Grown> open = {{before, std::vector<double>(tensors_.size(), 0), std::vector<double>(tensors_.size(), 0)}};
  std::vector<bool> seen(downsets_.size(), false);
  for (std::size_t next = 0; next < open.size(); ++next) {
    for (const Downsets::Growth& growth : downsets_.grown(open[next].set)) {
      if (seen[growth.bigger]) continue;
      Grown grown = {growth.bigger, open[next].seconds, open[next].bytes};
      std::vector<std::size_t> degrees;  // by place
      for (std::size_t t = 0; t < tensors_.size(); ++t) {
        grown.seconds[t] += seconds_[growth.node][t];
        grown.bytes[t] += bytes_[growth.node][t];
        const std::uint32_t most = std::min(most_replicas_, problem_.devices / tensors_[t]);
        const bool fits = grown.bytes[t] <= problem_.device_bytes * (1 + kRoundOff);
        if (fits && grown.seconds[t] <= seconds * most * (1 + kRoundOff)) degrees.push_back(t);
      }
      if (degrees.empty()) continue;
      seen[growth.bigger] = true;
      const std::vector<std::uint32_t> nodes = nodes_between(before, growth.bigger);
      for (const std::size_t t : degrees) {
        too_many_ |= all_labels_.size() > kMostStored;
        if (too_many_) return;
        const bool thin = labels_.thin();
        const std::vector<LayerLabel> labels = labels_.find(nodes, tensors_[t]);
        if (labels.empty()) continue;
        candidates_.push_back({growth.bigger, tensors_[t], thin, all_labels_.size(), all_labels_.size() + labels.size()});
        all_labels_.insert(all_labels_.end(), labels.begin(), labels.end());
      }
      open.push_back(std::move(grown));
    }
  }
}

std::uint32_t LayerSearch::most_in_flight(const Candidate& candidate, std::uint32_t replicas, double seconds) const {
  double most = 0;
  for (std::size_t i = candidate.labels_begin; i < candidate.labels_end; ++i) {
    const LayerLabel& label = all_labels_[i];
    if (label.seconds > seconds * replicas * (1 + kRoundOff)) break;  // and so are those behind it
    if (label_seconds(label, replicas) > seconds) continue;
    const double room = problem_.device_bytes - label.fixed_bytes;
    most = std::max(most, label.bytes_per_stage_in_flight > 0 ? room / label.bytes_per_stage_in_flight : kInfinite);
  }
  return static_cast<std::uint32_t>(std::min<double>(std::floor(most), most_replicas_));
}

// Of those with the same replicas and the same stages behind, a larger tensor degree must allow more in flight.
std::vector<LayerSearch::Option> LayerSearch::options_of(std::uint32_t before, double seconds) const {
  std::vector<Option> options;
  for (std::size_t first = candidate_begin_[before]; first < candidate_begin_[before + 1];) {
    std::size_t end = first;
    while (end < candidate_begin_[before + 1] && candidates_[end].after == candidates_[first].after) ++end;
    for (const std::uint32_t replicas : replicas_) {
      std::uint32_t most = 0;
      for (std::size_t i = first; i < end; ++i) {
        if (std::uint64_t{candidates_[i].tensor} * replicas > problem_.devices) break;
        const std::uint32_t in_flight = most_in_flight(candidates_[i], replicas, seconds);
        if (in_flight <= most) continue;
        most = in_flight;
        options.push_back({static_cast<std::uint32_t>(i), replicas, in_flight});
      }
    }
    first = end;
  }
  return options;
}

void LayerSearch::relax(std::uint32_t before, const Option& option) {
  const Candidate& candidate = candidates_[option.candidate];
  const std::uint32_t added = candidate.tensor * option.replicas;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(most_replicas_, std::uint64_t{option.in_flight} * option.replicas));
  if (most < option.replicas) return;
  const std::uint32_t* from = fewest(candidate.after);
  std::uint32_t* to = fewest(before) + option.replicas;
  const std::uint32_t count = most - option.replicas + 1;
  for (std::uint32_t i = 0; i < count; ++i) to[i] = std::min(to[i], from[i] + added);
}

std::optional<FoundLayers> LayerSearch::stages_within(double seconds) {
  prepare(seconds);
  fewest_.assign(downsets_.size() * (most_replicas_ + 1), kNoStages);
  const auto whole = static_cast<std::uint32_t>(downsets_.size() - 1);
  fewest(whole)[0] = 0;
  for (std::uint32_t before = whole; before-- > 0;) {
    for (const Option& option : options_of(before, seconds)) relax(before, option);
  }
  const std::uint32_t* best = std::min_element(fewest(0), fewest(0) + most_replicas_ + 1);
  if (*best > problem_.devices) return std::nullopt;
  return trace(seconds, static_cast<std::uint32_t>(best - fewest(0)));
}

FoundLayers LayerSearch::trace(double seconds, std::uint32_t replicas) {
  FoundLayers found;
  std::uint32_t set = 0;
  while (set + 1 < downsets_.size()) {
    for (const Option& option : options_of(set, seconds)) {
      const Candidate& candidate = candidates_[option.candidate];
      const std::uint32_t in_flight = (replicas + option.replicas - 1) / option.replicas;
      if (replicas < option.replicas || in_flight > option.in_flight) continue;
      const std::uint32_t behind = fewest(candidate.after)[replicas - option.replicas];
      if (fewest(set)[replicas] != behind + candidate.tensor * option.replicas) continue;
      found.stages.push_back(stage_of(set, option, in_flight, found.seconds));
      replicas -= option.replicas;
      set = candidate.after;
      break;
    }
  }
  return found;
}

// The fastest way to run the stage that fits.
PlacementStage LayerSearch::stage_of(std::uint32_t before, const Option& option, std::uint32_t in_flight, double& slowest) {
  const Candidate& candidate = candidates_[option.candidate];
  std::size_t best = candidate.labels_end;
  double seconds = kInfinite;
  for (std::size_t i = candidate.labels_begin; i < candidate.labels_end; ++i) {
    const LayerLabel& label = all_labels_[i];
    const double room = problem_.device_bytes - label.fixed_bytes;
    if (label.bytes_per_stage_in_flight > 0 && std::floor(room / label.bytes_per_stage_in_flight) < in_flight) continue;
    if (label_seconds(label, option.replicas) >= seconds) continue;
    seconds = label_seconds(label, option.replicas);
    best = i;
  }
  slowest = std::max(slowest, seconds);
  PlacementStage stage;
  stage.nodes = nodes_between(before, candidate.after);
  stage.replicas = option.replicas;
  stage.tensor = candidate.tensor;
  stage.variants = labels_.variants(stage.nodes, stage.tensor, static_cast<std::uint32_t>(best - candidate.labels_begin), candidate.thin);
  return stage;
}

}  // namespace meshwright
