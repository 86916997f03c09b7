#include "report/placement_report.h"

#include <charconv>
#include <cstdio>
#include <optional>

#include "report/text_table.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kMostNamedNodes = 8;  // of a stage, in a line of the table

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

const std::string& node_name(const PlacementProblem& problem, std::uint32_t node) {
  return std::visit([node](const auto& one) -> const std::string& { return one.nodes[node].name; }, problem);
}

// An id that is a number in the file is one in JSON.
Json id_json(const std::string& id) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (failure == std::errc() && end == id.data() + id.size()) return number;
  return id;
}

// What one device takes for a sample over what the stages take, where one device can do all: of a ReplicaProblem.
std::optional<double> speed_up(const PlacedStages& placed) {
  const auto* problem = std::get_if<ReplicaProblem>(&placed.problem);
  if (problem == nullptr || !(placed.answer.objective > 0)) return std::nullopt;
  double seconds = 0;
  for (const ReplicaNode& node : problem->nodes) seconds += node.seconds;
  return seconds / placed.answer.objective;
}

const std::string& variant_name(const LayerProblem& problem, const PlacementStage& stage, std::size_t place) {
  const LayerNode& node = problem.nodes[stage.nodes[place]];
  std::size_t degree = 0;
  while (node.degrees[degree].tensor != stage.tensor) ++degree;
  return node.degrees[degree].variants[stage.variants[place]].name;
}

Json stage_json(const PlacedStages& placed, std::size_t number) {
  const PlacementStage& stage = placed.answer.stages[number];
  Json nodes = Json::Array{};
  for (const std::uint32_t node : stage.nodes) nodes.push(id_json(node_name(placed.problem, node)));
  Json json;
  json.add("nodes", std::move(nodes));
  if (std::holds_alternative<LoadProblem>(placed.problem)) json.add("device", stage.host ? "host" : "accelerator");
  json.add("devices", stage.replicas * stage.tensor);
  if (!std::holds_alternative<LoadProblem>(placed.problem)) json.add("replicas", stage.replicas);
  if (const auto* layers = std::get_if<LayerProblem>(&placed.problem)) {
    Json variants = Json::Array{};
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) variants.push(variant_name(*layers, stage, i));
    json.add("tensor", stage.tensor).add("variants", std::move(variants));
  }
  json.add("seconds", placed.cost.seconds[number]);
  if (!std::holds_alternative<ReplicaProblem>(placed.problem)) json.add("bytes", placed.cost.bytes[number]);
  return json;
}

std::string stage_devices_text(const PlacementProblem& problem, const PlacementStage& stage) {
  if (std::holds_alternative<LoadProblem>(problem)) return stage.host ? "host" : "accelerator";
  const std::string replicas = std::to_string(stage.replicas);
  return std::holds_alternative<LayerProblem>(problem) ? replicas + " x " + std::to_string(stage.tensor) : replicas;
}

std::string some_nodes(const PlacementProblem& problem, const PlacementStage& stage) {
  std::string text;
  for (std::size_t i = 0; i < stage.nodes.size() && i < kMostNamedNodes; ++i) {
    text += (i > 0 ? " " : "") + node_name(problem, stage.nodes[i]);
  }
  return text + (stage.nodes.size() > kMostNamedNodes ? " ..." : "");
}

}  // namespace

std::string placement_text(const PlacedStages& placed) {
  std::string text = placed.inter + ": " + number_text(placed.answer.objective) + " seconds a sample, " +
                     std::string(name(placed.answer.status)) + " (" + placed.answer.method + ")";
  if (const auto times = speed_up(placed)) text += ", " + number_text(*times) + " times as fast as one device";
  std::vector<std::vector<std::string>> rows = {{"stage", "devices", "nodes", "count", "seconds"}};
  for (std::size_t i = 0; i < placed.answer.stages.size(); ++i) {
    const PlacementStage& stage = placed.answer.stages[i];
    rows.push_back({std::to_string(i), stage_devices_text(placed.problem, stage), some_nodes(placed.problem, stage),
                    std::to_string(stage.nodes.size()), number_text(placed.cost.seconds[i])});
  }
  return text + "\n\n" + table_text(rows, 3);
}

Json placement_json(const PlacedStages& placed) {
  Json stages = Json::Array{};
  for (std::size_t i = 0; i < placed.answer.stages.size(); ++i) stages.push(stage_json(placed, i));
  Json json;
  json.add("problem", name(placed.problem)).add("inter", placed.inter).add("status", name(placed.answer.status));
  json.add("method", placed.answer.method).add("objective", placed.answer.objective);
  if (const auto times = speed_up(placed)) json.add("speed_up", *times);
  json.add("stages", std::move(stages));
  return json;
}

}  // namespace meshwright::host
