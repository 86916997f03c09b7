#include "plan_reader.h"

#include <fstream>
#include <sstream>
#include <unordered_set>

#include "graph_reader.h"
#include "input_file.h"
#include "json_place.h"
#include "count_limits.h"
#include "plan_words.h"

namespace meshwright::host {

namespace {

// More devices or bytes than these are a mistake, and products of them stay within 64 bits.
constexpr std::int64_t kMostDevices = std::int64_t{1} << 30;

DType read_dtype(const JsonPlace& place) {
  const std::string text = place.text();
  const auto dtype = parse_dtype(text);
  if (!dtype) place.fail("'" + text + "' is no dtype");
  return dtype.value_or(DType::float32);
}

DeviceSpec read_device(const JsonPlace& place) {
  DeviceSpec device;
  device.name = place.at("device").text();
  device.memory_bytes = place.at("memory_bytes").integer(0);
  device.memory_bytes_per_second = place.at("memory_bytes_per_second").number();
  const JsonPlace rates = place.at("matrix_flops_per_second");
  for (const auto& [name, rate] : rates.members()) {
    const auto dtype = parse_dtype(name);
    if (!dtype) rates.fail("'" + name + "' is no dtype");
    device.matrix_flops_per_second[dtype.value_or(DType::float32)] = rate.number();
  }
  device.vector_flops_per_second = place.at("vector_flops_per_second").number();
  device.launch_seconds = place.at("launch_seconds").number();
  device.matrix_efficiency = place.at("matrix_efficiency").number();
  device.memory_efficiency = place.at("memory_efficiency").number();
  device.half_efficiency_flops = place.at("half_efficiency_flops").number();
  return device;
}

Cluster read_cluster(const JsonPlace& place) {
  Cluster cluster;
  cluster.name = place.at("name").text();
  cluster.device = read_device(place);
  cluster.nodes = place.at("nodes").integer(1, kMostDevices);
  cluster.devices_per_node = place.at("devices_per_node").integer(1, kMostDevices);
  cluster.reserved_bytes = place.at("reserved_bytes").integer(0);
  for (const JsonPlace& level : place.at("levels").elements()) {
    cluster.levels.push_back({level.at("name").text(), level.at("group").integer(0),
                              level.at("bytes_per_second").number(), level.at("latency_seconds").number(),
                              level.at("sharers").integer(0), level.at("ganged").boolean()});
  }
  if (place.failed()) return cluster;
  if (const Status status = validate(cluster); !status) place.fail(status.error().message);
  return cluster;
}

Mesh read_mesh(const JsonPlace& place, const Cluster& cluster) {
  Mesh mesh;
  std::int64_t devices = 1;
  for (const JsonPlace& axis : place.elements()) {
    mesh.axes.push_back({axis.at("size").integer(2, kMostDevices), axis.at("alpha_seconds").seconds(),
                         axis.at("beta_seconds_per_byte").number(0, 1), axis.at("slowest_link").text()});
    if (__builtin_mul_overflow(devices, mesh.axes.back().size, &devices)) place.fail("the mesh is impossibly large");
  }
  if (mesh.axes.size() > kMaxMeshAxes) place.fail("more than " + std::to_string(kMaxMeshAxes) + " axes");
  if (!place.failed() && devices != cluster.devices()) {
    place.fail("the axes make " + std::to_string(devices) + " devices, and the cluster has " +
               std::to_string(cluster.devices()));
  }
  return mesh;
}

TrainingSettings read_training(const JsonPlace& place) {
  TrainingSettings training;
  training.optimizer = place.at("optimizer").one_of(Optimizer::adamw, [](Optimizer kind) { return word(kind); });
  const JsonPlace param_dtype = place.at("param_dtype");
  if (!param_dtype.is_null()) training.param_dtype = read_dtype(param_dtype);
  training.master_dtype = read_dtype(place.at("master_dtype"));
  const JsonPlace reduce_dtype = place.at("reduce_dtype");
  if (!reduce_dtype.is_null()) training.reduce_dtype = read_dtype(reduce_dtype);
  training.microbatches = place.at("microbatches").integer(1, kMostMicrobatches);
  training.keep_gradients = place.at("keep_gradients").boolean();
  return training;
}

class PlanReader {
 public:
  explicit PlanReader(const JsonPlace& root) : root_(root) {}

  Plan run() {
    if (!read_head() || !read_settings()) return std::move(plan_);
    plan_.graph = std::make_shared<const Graph>(read_graph(root_.at("graph")));
    if (root_.failed()) return std::move(plan_);
    if (const Status status = validate(*plan_.graph); !status) root_.at("graph").fail(status.error().message);
    check_ops();
    collect_names();
    for (const JsonPlace& variable : root_.at("variables").elements())
      plan_.variables.push_back(read_variable(variable));
    if (root_.failed()) return std::move(plan_);
    for (const JsonPlace& one : root_.at("conversions").elements()) plan_.conversions.push_back(read_conversion(one));
    return std::move(plan_);
  }

 private:
  bool read_head() {
    const auto format = root_.find("format");
    if (root_.failed()) return false;
    if (!format || format->text() != "meshwright-plan") root_.fail("this is no plan of Meshwright");
    const JsonPlace version = root_.at("format_version");
    const std::int64_t number = version.integer();
    if (number != kPlanFormatVersion) {
      version.fail("the file has version " + std::to_string(number) + ", and this program reads version " +
                   std::to_string(kPlanFormatVersion) + "; plan again");
    }
    return !root_.failed();
  }

  bool read_settings() {
    plan_.model_path = root_.at("model").at("path").text();
    plan_.model_hash = root_.at("model").at("hash").text();
    plan_.status = root_.at("status").one_of(SolveStatus::heuristic, [](SolveStatus status) { return name(status); });
    plan_.method = root_.at("method").text();
    plan_.objective_seconds = root_.at("objective_seconds").seconds();
    plan_.lower_bound_seconds = root_.at("lower_bound_seconds").seconds();
    if (plan_.lower_bound_seconds > plan_.objective_seconds * (1 + 1e-9)) {
      root_.at("lower_bound_seconds").fail("it is above objective_seconds, which it bounds from below");
    }
    plan_.step_seconds = root_.at("step_seconds").seconds();
    plan_.peak_bytes = root_.at("peak_bytes").integer(0);
    plan_.budget_bytes = root_.at("budget_bytes").integer(0);
    plan_.cluster = read_cluster(root_.at("cluster"));
    plan_.mesh = read_mesh(root_.at("mesh"), plan_.cluster);
    plan_.training = read_training(root_.at("training"));
    for (const JsonPlace& plugin : root_.at("plugins").elements()) {
      plan_.plugins.push_back({plugin.at("kind").text(), plugin.at("id").text(), plugin.at("version").text()});
    }
    plan_.unruled_ops = root_.at("unruled_ops").texts();
    plan_.notes = root_.at("notes").texts();
    return !root_.failed();
  }

  // Of the planner's own ops a plan has those that it makes of a model's; all others stand in programs only.
  void check_ops() const {
    for (const Node& node : plan_.graph->nodes) {
      const bool is_composite = node.op == "meshwright.experts" || node.op == "meshwright.recurrent";
      if (node.op.starts_with("meshwright.") && !is_composite) root_.at("graph").fail("node '" + node.name + "': no plan has the op '" + node.op + "'");
    }
  }

  // A parameter goes by its name in the model, any other value by the graph's.
  void collect_names() {
    for (const Value& value : plan_.graph->values) names_.insert(value.name);
    for (const Source& source : plan_.graph->sources) names_.insert(source.names.begin(), source.names.end());
  }

  std::string read_value_name(const JsonPlace& place) const {
    std::string name = place.text();
    if (!names_.contains(name)) place.fail("the graph has no value '" + name + "'");
    return name;
  }

  static std::string text_or_nothing(const JsonPlace& place, std::string_view key) {
    const auto member = place.find(key);
    return member ? member->text() : std::string();
  }

  std::vector<PlannedPort> read_ports(const JsonPlace& variable, std::string_view key) const {
    std::vector<PlannedPort> ports;
    const auto list = variable.find(key);
    if (!list) return ports;
    for (const JsonPlace& port : list->elements()) {
      ports.push_back(
          {read_value_name(port.at("value")), port.at("layout").text(), text_or_nothing(port, "gradient_layout")});
    }
    return ports;
  }

  PlannedVariable read_variable(const JsonPlace& place) const {
    const auto seconds = [&](std::string_view key) {
      const auto member = place.find(key);
      return member ? member->seconds() : 0.0;
    };
    const auto bytes = [&](std::string_view key) {
      const auto member = place.find(key);
      return member ? member->integer(0) : 0;
    };
    PlannedVariable variable;
    variable.kind = place.at("kind").one_of(VariableKind::output, [](VariableKind kind) { return word(kind); });
    variable.name = place.at("name").text();
    variable.op = text_or_nothing(place, "op");
    variable.module = text_or_nothing(place, "module");
    if (const auto axes = place.find("axes")) variable.axes = axes->texts();
    variable.operands = read_ports(place, "operands");
    variable.results = read_ports(place, "results");
    variable.compute_layout = text_or_nothing(place, "compute_layout");
    variable.state_layout = text_or_nothing(place, "state_layout");
    if (!variable.state_layout.empty()) {
      variable.zero = place.at("zero").one_of(ZeroStage::value, [](ZeroStage stage) { return word(stage); });
      variable.regather = place.at("regather").boolean();
      variable.prefetch = place.at("prefetch").boolean();
    }
    variable.forward_seconds = place.at("forward_seconds").seconds();
    variable.backward_seconds = place.at("backward_seconds").seconds();
    variable.update_seconds = seconds("update_seconds");
    variable.communication_seconds = seconds("communication_seconds");
    variable.saved_bytes = bytes("saved_bytes");
    variable.state_bytes = bytes("state_bytes");
    variable.gradient_bytes = bytes("gradient_bytes");
    return variable;
  }

  PlannedMove read_move(const JsonPlace& place) const {
    PlannedMove move;
    move.kind = place.at("kind").one_of(MoveKind::keep_one, [](MoveKind kind) { return name(kind); });
    move.axis = place.at("axis").index(plan_.mesh.rank(), "mesh axes");
    if (move.kind == MoveKind::permute) move.other_axis = place.at("other_axis").index(plan_.mesh.rank(), "mesh axes");
    move.layout = place.at("layout").text();
    move.bytes = place.at("bytes").integer(0);
    move.seconds = place.at("seconds").seconds();
    return move;
  }

  PlannedConversion read_conversion(const JsonPlace& place) const {
    PlannedConversion conversion;
    conversion.value = read_value_name(place.at("value"));
    conversion.from = place.at("from").index(plan_.variables.size(), "variables");
    conversion.to = place.at("to").index(plan_.variables.size(), "variables");
    const JsonPlace direction = place.at("direction");
    conversion.backward = direction.text() == "backward";
    if (!conversion.backward && direction.text() != "forward") {
      direction.fail("'" + direction.text() + "' is none of forward, backward");
    }
    if (!place.failed()) {
      const PlannedVariable& user = plan_.variables[conversion.backward ? conversion.from : conversion.to];
      conversion.to_port = place.at("operand").index(user.operands.size(), "operands of '" + user.name + "'");
    }
    conversion.hides = place.at("hides").boolean();
    conversion.source_layout = place.at("source_layout").text();
    conversion.target_layout = place.at("target_layout").text();
    for (const JsonPlace& move : place.at("moves").elements()) conversion.moves.push_back(read_move(move));
    conversion.seconds = place.at("seconds").seconds();
    conversion.times = place.at("times").integer(1, 2 * plan_.training.microbatches);  // gathered twice
    return conversion;
  }

  JsonPlace root_;
  Plan plan_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<Plan> parse_plan(std::string_view text, const std::string& name) {
  const Result<Json> json = parse_json(text, name);
  if (!json) return json.error();
  std::optional<std::string> problem;
  Plan plan = PlanReader(JsonPlace(*json, problem)).run();
  if (problem) return bad_input(name + ": " + *problem);
  return plan;
}

Result<Plan> read_plan(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return bad_input(path + ": cannot read the plan: the file is missing, unreadable or empty");
  return parse_plan(text.view(), path);
}

}  // namespace meshwright::host
