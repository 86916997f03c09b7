#include "meshwright/placement.h"

#include <algorithm>
#include <cmath>

#include "tensor/guarded.h"

namespace meshwright {

namespace {

constexpr double kMostPlacementNumber = 1e30;  // so that no sum or product of a few of them overflows
constexpr double kClaimTolerance = 1e-9;

struct NamedNumber {
  std::string_view name;
  double value;
};

Status check_numbers(const std::string& where, std::initializer_list<NamedNumber> numbers) {
  for (const NamedNumber& number : numbers) {
    if (number.value >= 0 && number.value <= kMostPlacementNumber) continue;
    return bad_input(where + ": " + std::string(number.name) + " must be a number from 0 to 1e30");
  }
  return Done{};
}

Status check_positive(std::initializer_list<NamedNumber> numbers) {
  for (const NamedNumber& number : numbers) {
    if (number.value > 0 && number.value <= kMostPlacementNumber) continue;
    return bad_input(std::string(number.name) + " must be above 0, and at most 1e30");
  }
  return Done{};
}

Status check_devices(std::string_view what, std::uint32_t devices, std::uint32_t least) {
  if (devices >= least && devices <= kMostPlacementDevices) return Done{};
  return bad_input(std::string(what) + " must be from " + std::to_string(least) + " to " +
                   std::to_string(kMostPlacementDevices) + ", not " + std::to_string(devices));
}

// Kahn's algorithm: what is never without an edge that leads into it is on a cycle or behind one.
Status check_acyclic(std::size_t nodes, std::span<const PlacementEdge> edges) {
  std::vector<std::vector<std::uint32_t>> readers(nodes);
  std::vector<std::size_t> waits(nodes, 0);
  for (const PlacementEdge& edge : edges) {
    readers[edge.from].push_back(edge.to);
    ++waits[edge.to];
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    if (waits[node] == 0) ready.push_back(node);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    for (const std::uint32_t reader : readers[ready[next]]) {
      if (--waits[reader] == 0) ready.push_back(reader);
    }
  }
  if (ready.size() == nodes) return Done{};
  const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; });
  return bad_input("node " + std::to_string(stuck - waits.begin()) + " (counted from 0) is on a cycle of edges, or " +
                   "behind one; a graph to place has none");
}

Status check_graph(std::size_t nodes, std::span<const PlacementEdge> edges) {
  if (nodes == 0) return bad_input("there are no nodes to place");
  if (nodes > kMostPlacementNodes) {
    return bad_input("there are " + std::to_string(nodes) + " nodes; at most " + std::to_string(kMostPlacementNodes) +
                     " can be placed");
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const std::string where = "edge " + std::to_string(i) + " (counted from 0)";
    if (edges[i].from >= nodes || edges[i].to >= nodes) return bad_input(where + ": it leads to a node that is not there");
    if (edges[i].from == edges[i].to) return bad_input(where + ": it joins a node with itself");
    if (Status status = check_numbers(where, {{"bytes", edges[i].bytes}}); !status) return status;
  }
  return check_acyclic(nodes, edges);
}

Status check_problem(const LoadProblem& problem) {
  for (const LoadNode& node : problem.nodes) {
    if (Status status = check_numbers("node '" + node.name + "'", {{"accelerator_seconds", node.accelerator_seconds},
                                                                   {"host_seconds", node.host_seconds},
                                                                   {"memory_bytes", node.memory_bytes},
                                                                   {"transfer_seconds", node.transfer_seconds}});
        !status) {
      return status;
    }
  }
  if (Status status = check_devices("accelerators", problem.accelerators, 0); !status) return status;
  if (Status status = check_devices("hosts", problem.hosts, 0); !status) return status;
  if (problem.accelerators == 0 && problem.hosts == 0) return bad_input("there is neither an accelerator nor a host");
  return check_numbers("the problem", {{"accelerator_bytes", problem.accelerator_bytes}});
}

Status check_problem(const ReplicaProblem& problem) {
  for (const ReplicaNode& node : problem.nodes) {
    if (Status status = check_numbers("node '" + node.name + "'", {{"seconds", node.seconds},
                                                                   {"output_bytes", node.output_bytes},
                                                                   {"parameter_bytes", node.parameter_bytes}});
        !status) {
      return status;
    }
  }
  if (Status status = check_devices("devices", problem.devices, 1); !status) return status;
  return check_positive({{"bytes_per_second", problem.bytes_per_second}});
}

Status check_variant(const std::string& where, const LayerVariant& variant, std::size_t inputs, std::size_t outputs) {
  if (Status status = check_numbers(where, {{"seconds", variant.seconds},
                                            {"parameter_bytes", variant.parameter_bytes},
                                            {"bytes_per_stage_in_flight", variant.bytes_per_stage_in_flight},
                                            {"fixed_bytes", variant.fixed_bytes}});
      !status) {
    return status;
  }
  if (variant.input_bytes.size() != inputs || variant.output_bytes.size() != outputs) {
    return bad_input(where + ": input_bytes and output_bytes must have an entry for each edge of the node");
  }
  for (const auto* list : {&variant.input_bytes, &variant.output_bytes}) {
    for (const double bytes : *list) {
      if (Status status = check_numbers(where, {{"the bytes of an edge", bytes}}); !status) return status;
    }
  }
  return Done{};
}

Status check_problem(const LayerProblem& problem) {
  std::vector<std::size_t> inputs(problem.nodes.size(), 0), outputs(problem.nodes.size(), 0);
  for (const PlacementEdge& edge : problem.edges) {
    ++outputs[edge.from];
    ++inputs[edge.to];
  }
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const LayerNode& node = problem.nodes[i];
    std::uint32_t last = 0;
    for (const LayerDegree& degree : node.degrees) {
      const std::string where = "node '" + node.name + "', tensor degree " + std::to_string(degree.tensor);
      if (degree.tensor <= last) return bad_input(where + ": degrees must ascend from 1");
      last = degree.tensor;
      for (const LayerVariant& variant : degree.variants) {
        Status status = check_variant(where + ", '" + variant.name + "'", variant, inputs[i], outputs[i]);
        if (!status) return status;
      }
    }
  }
  if (Status status = check_devices("devices", problem.devices, 1); !status) return status;
  if (Status status = check_devices("samples", problem.samples, 1); !status) return status;
  if (Status status = check_numbers("the problem", {{"device_bytes", problem.device_bytes}}); !status) return status;
  return check_positive({{"bytes_per_second", problem.bytes_per_second}});
}

Status check_step_cost(const std::string& where, const StepCost& cost) {
  return check_numbers(where, {{"forward_seconds", cost.forward_seconds},
                               {"backward_seconds", cost.backward_seconds},
                               {"once_seconds", cost.once_seconds},
                               {"resident_bytes", cost.resident_bytes},
                               {"saved_bytes", cost.saved_bytes},
                               {"passing_bytes", cost.passing_bytes}});
}

Status check_way(const StepProblem& problem, const StepWay& way) {
  const std::string where = "way '" + way.name + "' on " + std::to_string(way.devices) + " devices";
  if (Status status = check_devices(where + ": devices", way.devices, 1); !status) return status;
  if (way.nodes.size() != problem.nodes.size()) return bad_input(where + ": it must have what each of the " + std::to_string(problem.nodes.size()) + " nodes takes");
  for (std::size_t i = 0; i < way.nodes.size(); ++i) {
    if (Status status = check_step_cost(where + ", node '" + problem.nodes[i].name + "'", way.nodes[i]); !status) return status;
  }
  return Done{};
}

Status check_problem(const StepProblem& problem) {
  for (const StepNode& node : problem.nodes) {
    if (Status status = check_numbers("node '" + node.name + "'", {{"crossing_seconds", node.crossing_seconds}}); !status) return status;
  }
  if (problem.ways.empty()) return bad_input("there are no ways to run a stage");
  for (const StepWay& way : problem.ways) {
    if (Status status = check_way(problem, way); !status) return status;
  }
  for (const std::uint32_t group : problem.groups) {
    if (Status status = check_devices("each of groups", group, 1); !status) return status;
  }
  if (Status status = check_devices("devices", problem.devices, 1); !status) return status;
  if (Status status = check_devices("microbatches", problem.microbatches, 1); !status) return status;
  return check_numbers("the problem", {{"device_bytes", problem.device_bytes}});
}

Status check_menu(const MenuProblem& problem, const Menu& menu) {
  const std::string where = "the menu of " + std::to_string(menu.stages) + " stages";
  if (menu.stages == 0 || problem.devices % menu.stages != 0) return bad_input(where + ": that number must divide the " + std::to_string(problem.devices) + " devices");
  if (menu.entries.empty()) return bad_input(where + ": it has no entries");
  for (const MenuEntry& entry : menu.entries) {
    if (entry.nodes.size() != problem.nodes.size()) return bad_input(where + ", '" + entry.name + "': it must have what each of the " + std::to_string(problem.nodes.size()) + " nodes takes");
    for (std::size_t i = 0; i < entry.nodes.size(); ++i) {
      if (Status status = check_step_cost(where + ", '" + entry.name + "', node '" + problem.nodes[i].name + "'", entry.nodes[i]); !status) return status;
    }
  }
  if (menu.change_seconds.size() != (problem.nodes.size() - 1) * menu.entries.size() * menu.entries.size()) return bad_input(where + ": it must have seconds of a change for each node but the last one, and each two entries");
  for (const double seconds : menu.change_seconds) {
    if (Status status = check_numbers(where, {{"the seconds of a change", seconds}}); !status) return status;
  }
  return Done{};
}

Status check_problem(const MenuProblem& problem) {
  for (const StepNode& node : problem.nodes) {
    if (Status status = check_numbers("node '" + node.name + "'", {{"crossing_seconds", node.crossing_seconds}}); !status) return status;
  }
  if (Status status = check_devices("devices", problem.devices, 1); !status) return status;
  if (Status status = check_devices("microbatches", problem.microbatches, 1); !status) return status;
  if (problem.menus.empty()) return bad_input("there are no menus to choose from");
  for (std::size_t i = 0; i < problem.menus.size(); ++i) {
    if (Status status = check_menu(problem, problem.menus[i]); !status) return status;
    for (std::size_t before = 0; before < i; ++before) {
      if (problem.menus[before].stages == problem.menus[i].stages) return bad_input("there are two menus of " + std::to_string(problem.menus[i].stages) + " stages");
    }
  }
  return check_numbers("the problem", {{"device_bytes", problem.device_bytes}});
}

template <class Problem>
std::span<const PlacementEdge> edges_of_problem(const Problem& problem) {
  return problem.edges;
}

// A line's edges need no check.
std::span<const PlacementEdge> edges_of_problem(const StepProblem&) { return {}; }
std::span<const PlacementEdge> edges_of_problem(const MenuProblem&) { return {}; }

Status check_answer(const PlacementProblem& problem, PlacementAnswer& answer) {
  if (answer.status == SolveStatus::infeasible) {
    if (!answer.stages.empty()) return plugin_failed("the inter solver says 'infeasible' and gives stages");
    if (answer.binding.empty()) return plugin_failed("the inter solver says 'infeasible' and not why");
    return Done{};
  }
  if (answer.status == SolveStatus::bounded) return plugin_failed("the inter solver says 'bounded', but gives no bound");
  const Result<PlacementCost> cost = evaluate(problem, answer.stages);
  if (!cost) return plugin_failed("the inter solver's stages break a rule: " + cost.error().message);
  if (!(std::abs(cost->objective - answer.objective) <= kClaimTolerance * cost->objective)) {
    return plugin_failed("the inter solver claims " + std::to_string(answer.objective) + " s, but its stages take " +
                         std::to_string(cost->objective) + " s");
  }
  answer.objective = cost->objective;
  return Done{};
}

}  // namespace

InterSolver::~InterSolver() = default;

std::string_view name(const PlacementProblem& problem) {
  if (const auto* step = std::get_if<StepProblem>(&problem)) return step->objective == StepObjective::alpa ? "alpa" : "dapple";
  if (std::holds_alternative<MenuProblem>(problem)) return "galvatron";
  constexpr std::string_view kNames[] = {"max_load", "pipedream", "piper"};
  return kNames[problem.index()];
}

Status validate(const PlacementProblem& problem) {
  return std::visit(
      [](const auto& one) -> Status {
        if (Status status = check_graph(one.nodes.size(), edges_of_problem(one)); !status) return status;
        return check_problem(one);
      },
      problem);
}

Result<PlacementAnswer> InterSolver::solve(const PlacementProblem& problem) const {
  if (Status status = validate(problem); !status) return status.error();
  const auto who = [] { return std::string("the inter solver"); };
  Result<PlacementAnswer> answer = guarded(who, [&] { return do_solve(problem); });
  if (!answer) return answer;
  if (Status status = check_answer(problem, *answer); !status) return status.error();
  return answer;
}

Error other_problem(std::string_view solver, const PlacementProblem& problem) {
  const std::string wanted(name(problem));
  return bad_input(std::string(solver) + " does not solve this problem, which is one of " + wanted + "; take --inter " +
                   wanted);
}

}  // namespace meshwright
