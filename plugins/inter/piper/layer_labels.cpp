#include "layer_labels.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace meshwright {

namespace {

constexpr std::size_t kMostLabels = 2048;
// Comparisons of labels for all stages together, about a second; behind that few labels of a stage are kept.
constexpr std::uint64_t kMostComparisons = 400'000'000;
constexpr std::size_t kFewLabels = 32;

bool covers(const LayerLabel& better, const LayerLabel& label) {
  return better.parameter_bytes <= label.parameter_bytes && better.fixed_bytes <= label.fixed_bytes &&
         better.bytes_per_stage_in_flight <= label.bytes_per_stage_in_flight;
}

auto key(const LayerLabel& label) {
  return std::make_tuple(label.seconds, label.bytes_per_stage_in_flight, label.fixed_bytes, label.parameter_bytes, label.from, label.variant);
}

// Those that no other one is at least as good as in everything, by seconds. What was kept last is most like the next.
void keep_pareto(std::vector<LayerLabel>& labels, std::uint64_t& comparisons) {
  std::sort(labels.begin(), labels.end(), [](const LayerLabel& a, const LayerLabel& b) { return key(a) < key(b); });
  std::vector<LayerLabel> kept;
  for (const LayerLabel& label : labels) {
    const auto better = std::find_if(kept.rbegin(), kept.rend(), [&](const LayerLabel& other) { return covers(other, label); });
    comparisons += static_cast<std::uint64_t>(better - kept.rbegin());
    if (better == kept.rend()) kept.push_back(label);
  }
  labels = std::move(kept);
}

// Every so many-th of them, by seconds, from the fastest to the one that needs least memory.
void thin_out(std::vector<LayerLabel>& labels, std::size_t most) {
  std::vector<LayerLabel> kept;
  for (std::size_t i = 0; i + 1 < most; ++i) kept.push_back(labels[i * labels.size() / (most - 1)]);
  kept.push_back(*std::min_element(labels.begin(), labels.end(), [](const LayerLabel& a, const LayerLabel& b) {
    return a.bytes_per_stage_in_flight + a.fixed_bytes < b.bytes_per_stage_in_flight + b.fixed_bytes;
  }));
  std::stable_sort(kept.begin(), kept.end(), [](const LayerLabel& a, const LayerLabel& b) { return a.seconds < b.seconds; });
  labels = std::move(kept);
}

double bytes_of_one(const LayerLabel& label) { return label.bytes_per_stage_in_flight + label.fixed_bytes; }

}  // namespace

LayerLabels::LayerLabels(const LayerProblem& problem)
    : problem_(problem), inputs_(problem.nodes.size()), outputs_(problem.nodes.size()), inside_(problem.nodes.size(), false) {
  for (std::uint32_t edge = 0; edge < problem.edges.size(); ++edge) {
    outputs_[problem.edges[edge].from].push_back(edge);
    inputs_[problem.edges[edge].to].push_back(edge);
  }
}

const LayerDegree* LayerLabels::degree(std::uint32_t node, std::uint32_t tensor) const {
  for (const LayerDegree& one : problem_.nodes[node].degrees) {
    if (one.tensor == tensor) return one.variants.empty() ? nullptr : &one;
  }
  return nullptr;
}

std::vector<LayerLabel> LayerLabels::node_labels(std::uint32_t node, const LayerDegree& degree) {
  std::vector<LayerLabel> labels;
  for (std::uint32_t id = 0; id < degree.variants.size(); ++id) {
    const LayerVariant& variant = degree.variants[id];
    double crossing = 0;
    for (std::size_t k = 0; k < inputs_[node].size(); ++k) {
      const PlacementEdge& edge = problem_.edges[inputs_[node][k]];
      if (!inside_[edge.from]) crossing += 2 * (edge.bytes + variant.input_bytes[k]);
    }
    for (std::size_t k = 0; k < outputs_[node].size(); ++k) {
      const PlacementEdge& edge = problem_.edges[outputs_[node][k]];
      if (!inside_[edge.to]) crossing += 2 * (edge.bytes + variant.output_bytes[k]);
    }
    labels.push_back({variant.seconds + crossing / problem_.bytes_per_second, variant.parameter_bytes,
                      variant.bytes_per_stage_in_flight, variant.fixed_bytes, 0, id});
  }
  keep_pareto(labels, comparisons_);
  return labels;
}

// Where the fastest of each layer's choices fit a device together with as many stages in flight as there could be, nothing
// slower is of use. `choices` are by seconds.
void LayerLabels::keep_fastest_if_roomy(Layers& choices) const {
  const double most_in_flight = std::min(problem_.devices, problem_.samples);
  double bytes = 0;
  for (const std::vector<LayerLabel>& of_layer : choices) {
    const LayerLabel& fastest = of_layer.front();
    for (const LayerLabel& other : of_layer) {
      if (other.parameter_bytes < fastest.parameter_bytes) return;  // it may be faster with more replicas
    }
    bytes += fastest.bytes_per_stage_in_flight * most_in_flight + fastest.fixed_bytes;
  }
  if (bytes > problem_.device_bytes) return;
  for (std::vector<LayerLabel>& of_layer : choices) of_layer.resize(1);
}

LayerLabels::Layers LayerLabels::find_layers(std::span<const std::uint32_t> nodes, std::uint32_t tensor, bool thin) {
  std::vector<const LayerDegree*> degrees;
  for (const std::uint32_t node : nodes) {
    degrees.push_back(degree(node, tensor));
    if (degrees.back() == nullptr) return {};
  }
  for (const std::uint32_t node : nodes) inside_[node] = true;
  Layers choices;
  for (std::size_t i = 0; i < nodes.size(); ++i) choices.push_back(node_labels(nodes[i], *degrees[i]));
  for (const std::uint32_t node : nodes) inside_[node] = false;
  keep_fastest_if_roomy(choices);
  std::vector<double> least_behind(nodes.size() + 1, 0);  // bytes of this layer and of those after it
  for (std::size_t i = nodes.size(); i-- > 0;) {
    double least = std::numeric_limits<double>::infinity();
    for (const LayerLabel& choice : choices[i]) least = std::min(least, bytes_of_one(choice));
    least_behind[i] = least_behind[i + 1] + least;
  }

  Layers layers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<LayerLabel> before = i == 0 ? std::vector<LayerLabel>{{}} : layers.back();
    std::vector<LayerLabel> labels;
    for (std::uint32_t from = 0; from < before.size(); ++from) {
      for (const LayerLabel& choice : choices[i]) {
        const LayerLabel sum = {before[from].seconds + choice.seconds,
                                before[from].parameter_bytes + choice.parameter_bytes,
                                before[from].bytes_per_stage_in_flight + choice.bytes_per_stage_in_flight,
                                before[from].fixed_bytes + choice.fixed_bytes, from, choice.variant};
        if (bytes_of_one(sum) + least_behind[i + 1] <= problem_.device_bytes) labels.push_back(sum);
      }
    }
    if (choices[i].size() > 1 || i == 0) keep_pareto(labels, comparisons_);
    const std::size_t most = thin ? kFewLabels : kMostLabels;
    if (labels.size() > most) {
      thin_out(labels, most);
      exact_ = false;
    }
    layers.push_back(std::move(labels));
  }
  return layers;
}

std::vector<LayerLabel> LayerLabels::find(std::span<const std::uint32_t> nodes, std::uint32_t tensor) {
  Layers layers = find_layers(nodes, tensor, thin());
  return layers.empty() ? std::vector<LayerLabel>{} : std::move(layers.back());
}

bool LayerLabels::thin() const { return comparisons_ > kMostComparisons; }

std::vector<std::uint32_t> LayerLabels::variants(std::span<const std::uint32_t> nodes, std::uint32_t tensor,
                                                 std::uint32_t label, bool thin) {
  const Layers layers = find_layers(nodes, tensor, thin);
  std::vector<std::uint32_t> result(nodes.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    result[i] = layers[i][label].variant;
    label = layers[i][label].from;
  }
  return result;
}

}  // namespace meshwright
