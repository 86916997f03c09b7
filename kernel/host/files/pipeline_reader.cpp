#include "files/pipeline_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cut_model.h"
#include "files/cluster_reader.h"
#include "files/graph_reader.h"
#include "files/json_place.h"
#include "files/plan_reader.h"
#include "meshwright/schedule.h"
#include "meshwright/stages.h"
#include "stage_devices.h"

namespace meshwright::host {

namespace {

class PipelineReader {
 public:
  PipelineReader(const JsonPlace& root, const OpTable& ops) : root_(root), ops_(ops) {}

  PipelinePlan run() {
    const JsonPlace version = root_.at("format_version");
    if (version.integer() != kPipelineFormatVersion) version.fail("this program reads version " + std::to_string(kPipelineFormatVersion) + "; plan again");
    read_settings();
    if (!root_.failed()) read_model();
    if (!root_.failed()) read_stages();
    if (!root_.failed()) check_cut();
    return std::move(made_);
  }

 private:
  void read_settings() {
    made_.model_path = root_.at("model").at("path").text();
    made_.model_hash = root_.at("model").at("hash").text();
    made_.schedule = root_.at("schedule").text();
    made_.step_seconds = root_.at("step_seconds").seconds();
    const JsonPlace bubble = root_.at("bubble");
    made_.bubble = bubble.at("share").number(0, 1);
    made_.imbalance = bubble.at("imbalance").number(-1, 1);
    made_.communication = bubble.at("communication").number(-1, 1);
    made_.start = bubble.at("start").number(-1, 1);
    made_.budget_bytes = root_.at("budget_bytes").integer(0);
    made_.notes = root_.at("notes").texts();
    for (const JsonPlace& seconds : root_.at("busy_seconds").elements()) made_.busy_seconds.push_back(seconds.seconds());
    for (const JsonPlace& count : root_.at("in_flight").elements()) made_.in_flight.push_back(count.integer(0));
    for (const JsonPlace& bytes : root_.at("peak_bytes").elements()) made_.peak_bytes.push_back(bytes.integer(0));
    if (const std::optional<JsonPlace> orders = root_.find("orders")) read_orders(*orders);
    made_.cluster = read_cluster(root_.at("cluster"));
  }

  void read_orders(const JsonPlace& place) {
    for (const JsonPlace& order : place.elements()) {
      Result<std::vector<StageEvent>> events = parse_stage_events(order.text());
      if (!events) return order.fail(events.error().message);
      made_.orders.push_back(std::move(*events));
    }
  }

  void read_model() {
    const JsonPlace place = root_.at("graph");
    Graph graph = read_graph(place);
    if (root_.failed()) return;
    if (const Status status = validate(graph); !status) return place.fail(status.error().message);
    Result<ModelAnalysis> model = analyze_model(std::move(graph), ops_);
    if (!model) return place.fail(model.error().message);
    made_.model = std::move(*model);
  }

  void read_stages() {
    const JsonPlace list = root_.at("stages");
    const std::vector<JsonPlace> stages = list.elements();
    if (stages.size() < 2 || stages.size() > kMostScheduleStages) return list.fail("a pipeline has at least 2 stages, and at most " + std::to_string(kMostScheduleStages));
    if (made_.busy_seconds.size() != stages.size()) root_.at("busy_seconds").fail("there are " + std::to_string(stages.size()) + " stages");
    if (made_.in_flight.size() != stages.size()) root_.at("in_flight").fail("there are " + std::to_string(stages.size()) + " stages");
    if (const auto groups = groups_of_stages(made_.orders, stages.size()); !groups) return root_.at("orders").fail(groups.error().message);
    const std::uint32_t groups = made_.orders.empty() ? static_cast<std::uint32_t>(stages.size()) : static_cast<std::uint32_t>(made_.orders.size());
    if (made_.peak_bytes.size() != groups) root_.at("peak_bytes").fail("there are " + std::to_string(groups) + " groups of devices");
    for (const JsonPlace& stage : stages) {
      if (root_.failed()) return;
      made_.stages.push_back(read_plan_at(stage, ops_));
      Plan& plan = made_.stages.back();
      plan.part.stage = static_cast<std::uint32_t>(made_.stages.size() - 1);
      if (!root_.failed() && plan.training.microbatches != made_.stages.front().training.microbatches) stage.at("training").fail("all stages have as many microbatches");
    }
    if (root_.failed()) return;
    if (const Result<StageDevices> devices = StageDevices::of(made_.cluster, made_); !devices) return list.fail(devices.error().message);
    made_.training = made_.stages.front().training;
    made_.training.order.clear();
    made_.plugins = made_.stages.front().plugins;
  }

  // The nodes of a stage that depend on parameters say where the model is cut; all else follows.
  void check_cut() {
    const Graph& graph = *made_.model.graph;
    const std::vector<bool> depends = depends_on_parameters(graph);
    const std::map<std::string, std::uint32_t> stage_of_name = stages_by_node(made_.stages);
    std::vector<std::uint32_t> stage_of(graph.nodes.size(), 0);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (!depends[graph.nodes[id].results.front()]) continue;
      const auto found = stage_of_name.find(graph.nodes[id].name);
      if (found == stage_of_name.end()) return root_.at("stages").fail("no stage has '" + graph.nodes[id].name + "' of the model");
      stage_of[id] = found->second;
    }
    Result<CutModel> cut = cut_model(graph, stage_of, static_cast<std::uint32_t>(made_.stages.size()));
    if (!cut) return root_.at("stages").fail(cut.error().message);
    find_batches(made_.model, cut->boundaries);
    for (Plan& plan : made_.stages) {
      if (plan.graph() != cut->graphs[plan.part.stage]) return root_.at("stages").fail("the graph of stage " + std::to_string(plan.part.stage) + " is no part of the model as the stages cut it");
      plan.part = cut->part_of(plan.part.stage);
    }
    made_.boundaries = std::move(cut->boundaries);
    made_.shared = std::move(cut->shared);
  }

  JsonPlace root_;
  const OpTable& ops_;
  PipelinePlan made_;
};

}  // namespace

Result<std::variant<Plan, PipelinePlan>> parse_any_plan(std::string_view text, const std::string& name, const OpTable& ops) {
  const Result<Json> json = parse_json(text, name);
  if (!json) return json.error();
  std::optional<std::string> problem;
  const JsonPlace root(*json, problem);
  const std::optional<JsonPlace> format = root.find("format");
  const bool several = format && !root.failed() && std::holds_alternative<std::string>(format->value()) && format->text() == kPipelineFormat;
  std::variant<Plan, PipelinePlan> plan;
  if (several) plan = PipelineReader(root, ops).run();
  else plan = read_whole_plan_at(root, ops);
  if (problem) return bad_input(name + ": " + *problem);
  return plan;
}

Result<std::variant<Plan, PipelinePlan>> read_any_plan(const std::string& path, const OpTable& ops) {
  const Result<std::string> text = read_plan_text(path);
  if (!text) return text.error();
  return parse_any_plan(*text, path, ops);
}

}  // namespace meshwright::host
