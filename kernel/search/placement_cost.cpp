// What stages cost, by the definitions of placement.h.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "meshwright/placement.h"

namespace meshwright {

namespace {

constexpr std::uint32_t kNoStage = std::numeric_limits<std::uint32_t>::max();
constexpr double kRoundOff = 1e-12;  // relative: sums of bytes in another order

Error stage_error(std::size_t stage, const std::string& what) {
  return bad_input("stage " + std::to_string(stage) + ": " + what);
}

// The stage of each node. Error: bad_input unless each node is in one.
Result<std::vector<std::uint32_t>> stages_of_nodes(std::size_t nodes, std::span<const PlacementStage> stages) {
  std::vector<std::uint32_t> stage_of(nodes, kNoStage);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].nodes.empty()) return stage_error(stage, "it has no nodes");
    for (const std::uint32_t node : stages[stage].nodes) {
      if (node >= nodes) return stage_error(stage, "there is no node " + std::to_string(node));
      if (stage_of[node] != kNoStage) return stage_error(stage, "node " + std::to_string(node) + " is there twice");
      stage_of[node] = static_cast<std::uint32_t>(stage);
    }
  }
  const auto missing = std::find(stage_of.begin(), stage_of.end(), kNoStage);
  if (missing == stage_of.end()) return stage_of;
  return bad_input("node " + std::to_string(missing - stage_of.begin()) + " is in no stage");
}

Status check_order(std::span<const PlacementEdge> edges, std::span<const std::uint32_t> stage_of) {
  for (const PlacementEdge& edge : edges) {
    if (stage_of[edge.from] <= stage_of[edge.to]) continue;
    return stage_error(stage_of[edge.from], "the edge from node " + std::to_string(edge.from) + " to node " +
                                                std::to_string(edge.to) + " leads back to stage " +
                                                std::to_string(stage_of[edge.to]));
  }
  return Done{};
}

Status check_load_order(const LoadProblem& problem, std::span<const std::uint32_t> stage_of) {
  std::map<std::uint32_t, std::uint32_t> first;  // a node of each group
  std::set<std::uint32_t> forward_groups;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const std::uint32_t group = problem.nodes[node].group;
    if (!problem.nodes[node].backward) forward_groups.insert(group);
    const auto known = first.emplace(group, node).first;
    if (stage_of[known->second] == stage_of[node]) continue;
    return stage_error(stage_of[node], "nodes " + std::to_string(known->second) + " and " + std::to_string(node) +
                                           " are of one group and must be together");
  }
  std::vector<PlacementEdge> ordered;
  for (const PlacementEdge& edge : problem.edges) {
    const LoadNode& from = problem.nodes[edge.from];
    const LoadNode& to = problem.nodes[edge.to];
    if (!from.backward && !to.backward) ordered.push_back(edge);
    const bool alone = !forward_groups.contains(from.group) || !forward_groups.contains(to.group);
    if (from.backward && to.backward && alone) ordered.push_back({edge.to, edge.from});
  }
  return check_order(ordered, stage_of);
}

Result<PlacementCost> load_cost(const LoadProblem& problem, std::span<const PlacementStage> stages,
                                std::span<const std::uint32_t> stage_of) {
  if (Status status = check_load_order(problem, stage_of); !status) return status.error();
  PlacementCost cost;
  std::uint32_t accelerators = 0, hosts = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const bool host = stages[stage].host;
    ++(host ? hosts : accelerators);
    double seconds = 0, bytes = 0;
    for (const std::uint32_t id : stages[stage].nodes) {
      const LoadNode& node = problem.nodes[id];
      if (!host && !node.accelerator) return stage_error(stage, "node " + std::to_string(id) + " can't be on an accelerator");
      seconds += host ? node.host_seconds : node.accelerator_seconds;
      bytes += node.memory_bytes;
    }
    if (!host && bytes > problem.accelerator_bytes * (1 + kRoundOff)) return stage_error(stage, "it does not fit an accelerator's memory");
    cost.seconds.push_back(seconds);
    cost.bytes.push_back(bytes);
  }
  if (accelerators > problem.accelerators || hosts > problem.hosts) {
    return bad_input(std::to_string(accelerators) + " accelerators and " + std::to_string(hosts) + " hosts are used; there are " +
                     std::to_string(problem.accelerators) + " and " + std::to_string(problem.hosts));
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> moved;  // a node and a stage that pays for it
  for (const PlacementEdge& edge : problem.edges) {
    if (stage_of[edge.from] == stage_of[edge.to]) continue;
    moved.emplace(edge.from, stage_of[edge.from]);
    moved.emplace(edge.from, stage_of[edge.to]);
  }
  for (const auto& [node, stage] : moved) {
    if (!stages[stage].host) cost.seconds[stage] += problem.nodes[node].transfer_seconds;
  }
  return cost;
}

Result<PlacementCost> replica_cost(const ReplicaProblem& problem, std::span<const PlacementStage> stages,
                                   std::span<const std::uint32_t> stage_of) {
  if (Status status = check_order(problem.edges, stage_of); !status) return status.error();
  std::vector<std::uint32_t> last_reader(stage_of.begin(), stage_of.end());
  for (const PlacementEdge& edge : problem.edges) {
    last_reader[edge.from] = std::max(last_reader[edge.from], stage_of[edge.to]);
  }
  std::vector<double> handed_on(stages.size(), 0);  // by each stage to those behind it
  for (std::size_t node = 0; node < problem.nodes.size(); ++node) {
    for (std::uint32_t stage = stage_of[node]; stage < last_reader[node]; ++stage) {
      handed_on[stage] += problem.nodes[node].output_bytes;
    }
  }
  PlacementCost cost;
  std::uint64_t devices = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].replicas == 0) return stage_error(stage, "it has no replicas");
    const double replicas = stages[stage].replicas;
    devices += stages[stage].replicas;
    double compute = 0, parameters = 0;
    for (const std::uint32_t node : stages[stage].nodes) {
      compute += problem.nodes[node].seconds;
      parameters += problem.nodes[node].parameter_bytes;
    }
    double seconds = (compute + 4 * (replicas - 1) * parameters / (problem.bytes_per_second * replicas)) / replicas;
    if (stage > 0) {
      const double moved = std::max(handed_on[stage - 1], stage + 1 < stages.size() ? handed_on[stage] : 0);
      seconds = std::max(seconds, 2 * moved / (problem.bytes_per_second * replicas));
    }
    cost.seconds.push_back(seconds);
    cost.bytes.push_back(0);
  }
  if (devices == problem.devices) return cost;
  return bad_input("the stages have " + std::to_string(devices) + " devices together; they must have all " +
                   std::to_string(problem.devices));
}

Status check_layer_degrees(const LayerProblem& problem, std::span<const PlacementStage> stages) {
  std::uint64_t devices = 0, replicas = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const PlacementStage& one = stages[stage];
    if (one.replicas == 0 || problem.samples % one.replicas != 0) {
      return stage_error(stage, std::to_string(one.replicas) + " replicas do not divide the samples of a batch");
    }
    if (one.variants.size() != one.nodes.size()) return stage_error(stage, "it needs a variant for each of its nodes");
    devices += std::uint64_t{one.replicas} * one.tensor;
    replicas += one.replicas;
  }
  if (devices > problem.devices) return bad_input("the stages have " + std::to_string(devices) + " devices together; there are " + std::to_string(problem.devices));
  if (replicas > problem.samples) return bad_input("the stages have more replicas together than a batch has samples");
  return Done{};
}

const LayerVariant* find_variant(const LayerNode& node, std::uint32_t tensor, std::uint32_t variant) {
  for (const LayerDegree& degree : node.degrees) {
    if (degree.tensor == tensor && variant < degree.variants.size()) return &degree.variants[variant];
  }
  return nullptr;
}

Result<PlacementCost> layer_cost(const LayerProblem& problem, std::span<const PlacementStage> stages,
                                 std::span<const std::uint32_t> stage_of) {
  if (Status status = check_order(problem.edges, stage_of); !status) return status.error();
  if (Status status = check_layer_degrees(problem, stages); !status) return status.error();
  std::vector<std::vector<std::size_t>> inputs(problem.nodes.size()), outputs(problem.nodes.size());
  for (std::size_t i = 0; i < problem.edges.size(); ++i) {
    outputs[problem.edges[i].from].push_back(i);
    inputs[problem.edges[i].to].push_back(i);
  }
  const auto crosses = [&](const PlacementEdge& edge) { return stage_of[edge.from] != stage_of[edge.to]; };
  PlacementCost cost{0, std::vector<double>(stages.size()), std::vector<double>(stages.size())};
  std::uint64_t replicas_behind = 0;  // of this stage too
  for (std::size_t stage = stages.size(); stage-- > 0;) {
    const PlacementStage& one = stages[stage];
    const double d = one.replicas;
    replicas_behind += one.replicas;
    const auto in_flight = static_cast<double>((replicas_behind + one.replicas - 1) / one.replicas);
    double compute = 0, crossing = 0, parameters = 0, bytes = 0;
    for (std::size_t i = 0; i < one.nodes.size(); ++i) {
      const std::uint32_t node = one.nodes[i];
      const LayerVariant* variant = find_variant(problem.nodes[node], one.tensor, one.variants[i]);
      if (variant == nullptr) {
        return stage_error(stage, "node " + std::to_string(node) + " has no such variant for tensor degree " + std::to_string(one.tensor));
      }
      compute += variant->seconds;
      parameters += variant->parameter_bytes;
      bytes += in_flight * variant->bytes_per_stage_in_flight + variant->fixed_bytes;
      for (std::size_t k = 0; k < inputs[node].size(); ++k) {
        const PlacementEdge& edge = problem.edges[inputs[node][k]];
        if (crosses(edge)) crossing += 2 * (edge.bytes + variant->input_bytes[k]);
      }
      for (std::size_t k = 0; k < outputs[node].size(); ++k) {
        const PlacementEdge& edge = problem.edges[outputs[node][k]];
        if (crosses(edge)) crossing += 2 * (edge.bytes + variant->output_bytes[k]);
      }
    }
    if (bytes > problem.device_bytes * (1 + kRoundOff)) return stage_error(stage, "it does not fit a device's memory");
    const double moved = crossing / d + 4 * (d - 1) * parameters / d / problem.samples;
    cost.seconds[stage] = moved / problem.bytes_per_second + compute / d;
    cost.bytes[stage] = bytes;
  }
  return cost;
}

// Stages have all devices, one behind the other, in groups that are not torn.
Status check_step_devices(const StepProblem& problem, std::span<const PlacementStage> stages) {
  std::uint64_t first = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const PlacementStage& one = stages[stage];
    if (one.way >= problem.ways.size()) return stage_error(stage, "there is no way " + std::to_string(one.way));
    const std::uint32_t devices = problem.ways[one.way].devices;
    if (std::uint64_t{one.replicas} * one.tensor != devices) return stage_error(stage, "its way is of " + std::to_string(devices) + " devices, and it has " + std::to_string(std::uint64_t{one.replicas} * one.tensor));
    if (first + devices <= problem.devices && !are_together(problem.groups, static_cast<std::uint32_t>(first), devices)) {
      return stage_error(stage, std::to_string(devices) + " devices from " + std::to_string(first) + " on tear a group of devices that belong together");
    }
    first += devices;
  }
  if (first == problem.devices) return Done{};
  return bad_input("the stages have " + std::to_string(first) + " devices together; they must have all " + std::to_string(problem.devices));
}

double alpa_seconds(std::span<const double> stages, double microbatches) {
  return std::reduce(stages.begin(), stages.end()) + (microbatches - 1) * *std::ranges::max_element(stages);
}

// What stands one behind the other for DAPPLE: stages, and between them what crosses.
struct StepPart {
  double forward = 0, backward = 0, once = 0;

  [[nodiscard]] double both() const { return forward + backward; }
};

std::size_t pivot_of(std::span<const StepPart> parts, double microbatches) {
  std::size_t pivot = parts.size() - 1;
  double between = 0;
  for (std::size_t s = pivot; s-- > 0;) {
    const double steady = (microbatches - 1) * parts[pivot].both() + between;
    if ((microbatches - 1) * parts[s].both() > steady * (1 + kPivotTie)) {
      pivot = s;
      between = 0;
    } else {
      between += parts[s].both();
    }
  }
  return pivot;
}

double dapple_seconds(std::span<const StepPart> parts, double microbatches) {
  const std::size_t pivot = pivot_of(parts, microbatches);
  double warm_up = 0, backward = 0, ending = 0;
  for (std::size_t s = 0; s <= pivot; ++s) warm_up += parts[s].forward;
  for (std::size_t s = pivot + 1; s-- > 0;) {
    backward += parts[s].backward;
    ending = std::max(ending, parts[s].once + backward);
  }
  backward = parts[pivot].backward;
  for (std::size_t s = pivot + 1; s < parts.size(); ++s) {
    backward += parts[s].backward;
    ending = std::max(ending, parts[s].once - backward);
  }
  return warm_up + (microbatches - 1) * parts[pivot].both() + ending;
}

Result<PlacementCost> step_cost(const StepProblem& problem, std::span<const PlacementStage> stages, std::span<const std::uint32_t> stage_of) {
  std::vector<PlacementEdge> line;
  for (std::uint32_t node = 1; node < problem.nodes.size(); ++node) line.push_back({node - 1, node, 0});
  if (Status status = check_order(line, stage_of); !status) return status.error();
  if (Status status = check_step_devices(problem, stages); !status) return status.error();
  const double microbatches = problem.microbatches;
  PlacementCost cost;
  std::vector<StepPart> parts;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StepPart part;
    double resident = 0, saved = 0, passing = 0;
    for (const std::uint32_t node : stages[stage].nodes) {
      const StepCost& one = problem.ways[stages[stage].way].nodes[node];
      part = {part.forward + one.forward_seconds, part.backward + one.backward_seconds, part.once + one.once_seconds};
      resident += one.resident_bytes;
      saved += one.saved_bytes;
      passing = std::max(passing, one.passing_bytes);
    }
    const double in_flight = std::min(static_cast<double>(stages.size() - stage), microbatches);
    const double bytes = resident + in_flight * saved + passing;
    if (bytes > problem.device_bytes * (1 + kRoundOff)) return stage_error(stage, "it does not fit a device's memory");
    cost.seconds.push_back(part.both() + part.once / microbatches);
    cost.bytes.push_back(bytes);
    parts.push_back(part);
    const double crossing = problem.nodes[*std::ranges::max_element(stages[stage].nodes)].crossing_seconds;
    if (stage + 1 < stages.size()) parts.push_back({crossing, crossing, 0});
  }
  cost.objective = problem.objective == StepObjective::alpa ? alpa_seconds(cost.seconds, microbatches) : dapple_seconds(parts, microbatches);
  return cost;
}

// Stages have as many devices each, and for each node an entry of the menu for so many.
Result<const Menu*> menu_of(const MenuProblem& problem, std::span<const PlacementStage> stages) {
  const auto menu = std::ranges::find(problem.menus, stages.size(), &Menu::stages);
  if (menu == problem.menus.end()) return bad_input("there is no menu of " + std::to_string(stages.size()) + " stages");
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const PlacementStage& one = stages[stage];
    if (std::uint64_t{one.replicas} * one.tensor != problem.devices / menu->stages) return stage_error(stage, "it must have " + std::to_string(problem.devices / menu->stages) + " devices");
    if (!std::ranges::is_sorted(one.nodes)) return stage_error(stage, "its nodes must ascend");
    if (one.variants.size() != one.nodes.size()) return stage_error(stage, "it must have an entry of the menu for each node");
    for (const std::uint32_t entry : one.variants) {
      if (entry >= menu->entries.size()) return stage_error(stage, "there is no entry " + std::to_string(entry) + " in the menu");
    }
  }
  return &*menu;
}

Result<PlacementCost> menu_cost(const MenuProblem& problem, std::span<const PlacementStage> stages, std::span<const std::uint32_t> stage_of) {
  std::vector<PlacementEdge> line;
  for (std::uint32_t node = 1; node < problem.nodes.size(); ++node) line.push_back({node - 1, node, 0});
  if (Status status = check_order(line, stage_of); !status) return status.error();
  const Result<const Menu*> menu = menu_of(problem, stages);
  if (!menu) return menu.error();
  const double microbatches = problem.microbatches;
  PlacementCost cost;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const PlacementStage& here = stages[stage];
    double seconds = stage + 1 < stages.size() ? 2 * problem.nodes[here.nodes.back()].crossing_seconds : 0, resident = 0, saved = 0, passing = 0;
    for (std::size_t i = 0; i < here.nodes.size(); ++i) {
      const StepCost& one = (*menu)->entries[here.variants[i]].nodes[here.nodes[i]];
      seconds += one.forward_seconds + one.backward_seconds + one.once_seconds / microbatches;
      if (i > 0) seconds += (*menu)->change(here.nodes[i - 1], here.variants[i - 1], here.variants[i]);
      resident += one.resident_bytes;
      saved += one.saved_bytes;
      passing = std::max(passing, one.passing_bytes);
    }
    const double bytes = resident + std::min(static_cast<double>(stages.size() - stage), microbatches) * saved + passing;
    if (bytes > problem.device_bytes * (1 + kRoundOff)) return stage_error(stage, "it does not fit a device's memory");
    cost.seconds.push_back(seconds);
    cost.bytes.push_back(bytes);
  }
  cost.objective = alpa_seconds(cost.seconds, microbatches);
  return cost;
}

struct CostOf {
  std::span<const PlacementStage> stages;
  std::span<const std::uint32_t> stage_of;

  Result<PlacementCost> operator()(const LoadProblem& problem) const { return load_cost(problem, stages, stage_of); }
  Result<PlacementCost> operator()(const ReplicaProblem& problem) const { return replica_cost(problem, stages, stage_of); }
  Result<PlacementCost> operator()(const LayerProblem& problem) const { return layer_cost(problem, stages, stage_of); }
  Result<PlacementCost> operator()(const StepProblem& problem) const { return step_cost(problem, stages, stage_of); }
  Result<PlacementCost> operator()(const MenuProblem& problem) const { return menu_cost(problem, stages, stage_of); }
};

}  // namespace

bool are_together(std::span<const std::uint32_t> groups, std::uint32_t first, std::uint32_t devices) {
  const auto is_whole = [&](std::uint32_t group) { return devices > group ? first % group == 0 && devices % group == 0 : first / group == (first + devices - 1) / group; };
  return std::ranges::all_of(groups, is_whole);
}

Result<PlacementCost> evaluate(const PlacementProblem& problem, std::span<const PlacementStage> stages) {
  const std::size_t nodes = std::visit([](const auto& one) { return one.nodes.size(); }, problem);
  const Result<std::vector<std::uint32_t>> stage_of = stages_of_nodes(nodes, stages);
  if (!stage_of) return stage_of.error();
  Result<PlacementCost> cost = std::visit(CostOf{stages, *stage_of}, problem);
  if (cost && !std::holds_alternative<StepProblem>(problem) && !std::holds_alternative<MenuProblem>(problem)) cost->objective = *std::max_element(cost->seconds.begin(), cost->seconds.end());
  return cost;
}

}  // namespace meshwright
