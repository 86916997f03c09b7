#include "files/plan_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "files/cluster_reader.h"
#include "files/count_limits.h"
#include "files/graph_reader.h"
#include "files/input_file.h"
#include "files/json_place.h"
#include "files/memory_reader.h"
#include "files/runner_up_reader.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/step_order.h"
#include "plan_words.h"

namespace meshwright::host {

namespace {

Mesh read_mesh(const JsonPlace& place, const Cluster& cluster) {
  Mesh mesh;
  std::int64_t devices = 1;
  for (const JsonPlace& axis : place.elements()) {
    mesh.axes.emplace_back();
    mesh.axes.back().size = axis.at("size").integer(2, kMostDevices);
    if (__builtin_mul_overflow(devices, mesh.axes.back().size, &devices)) place.fail("the mesh is impossibly large");
  }
  if (mesh.axes.size() > kMaxMeshAxes) place.fail("more than " + std::to_string(kMaxMeshAxes) + " axes");
  if (!place.failed() && devices != cluster.devices()) {
    place.fail("the axes make " + std::to_string(devices) + " devices, and the cluster has " +
               std::to_string(cluster.devices()));
  }
  if (place.failed()) return mesh;
  std::vector<std::int64_t> shape;
  for (const MeshAxis& axis : mesh.axes) shape.push_back(axis.size);
  Result<Mesh> made = make_mesh(cluster, shape);
  if (!made) place.fail(made.error().message);
  return made ? std::move(*made) : mesh;
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
  if (const std::optional<JsonPlace> attention = place.find("attention")) training.attention = attention->text();
  if (const std::optional<JsonPlace> tf32 = place.find("tf32")) training.tf32 = tf32->boolean();
  if (const std::optional<JsonPlace> graphs = place.find("cuda_graphs")) training.cuda_graphs = graphs->boolean();
  if (const std::optional<JsonPlace> compile = place.find("compile")) training.compile = compile->boolean();
  training.keep_gradients = place.at("keep_gradients").boolean();
  if (const std::optional<JsonPlace> order = place.find("order")) {
    training.order = order->text();
    if (const Result<StepOrder> read = step_order(training); !read) order->fail(read.error().message);
  }
  return training;
}

class PlanReader {
 public:
  PlanReader(const JsonPlace& root, const OpTable& ops) : root_(root), ops_(ops) {}

  Plan run() {
    if (!read_head() || !read_settings() || !read_model()) return std::move(plan_);
    read_choices();
    if (root_.failed()) return std::move(plan_);
    if (const Status status = validate(plan_); !status) root_.fail(status.error().message);
    return std::move(plan_);
  }

 private:
  bool read_head() {
    const auto format = root_.find("format");
    if (root_.failed()) return false;
    if (format && format->text() == kPipelineFormat) root_.fail("this is a plan of several stages, and one of one stage is wanted here");
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
    // A plan of before steps had bounds has none.
    if (const std::optional<JsonPlace> bound = root_.find("step_lower_bound_seconds")) {
      plan_.step_lower_bound_seconds = bound->seconds();
      if (plan_.step_lower_bound_seconds > plan_.step_seconds * (1 + 1e-9)) bound->fail("it is above step_seconds, which it bounds from below");
    }
    if (const std::optional<JsonPlace> forward = root_.find("forward_seconds")) plan_.forward_seconds = forward->seconds();
    plan_.peak_bytes = root_.at("peak_bytes").integer(0);
    plan_.budget_bytes = root_.at("budget_bytes").integer(0);
    // A plan of before they were chosen has those of the profilers' default.
    if (const std::optional<JsonPlace> bucket = root_.find("bucket_bytes")) plan_.bucket_bytes = bucket->integer(1);
    if (const std::optional<JsonPlace> room = root_.find("room_bytes")) plan_.room_bytes = room->integer(0);
    plan_.cluster = read_cluster(root_.at("cluster"));
    plan_.memory.program_bytes = plan_.peak_bytes;
    plan_.memory.reserved_bytes = plan_.cluster.reserved_bytes;
    // A plan of before there were accounts has none.
    if (const std::optional<JsonPlace> memory = root_.find("memory"))
      plan_.memory = read_account(*memory, plan_.peak_bytes);
    plan_.mesh = read_mesh(root_.at("mesh"), plan_.cluster);
    plan_.training = read_training(root_.at("training"));
    for (const JsonPlace& plugin : root_.at("plugins").elements()) {
      plan_.plugins.push_back({plugin.at("kind").text(), plugin.at("id").text(), plugin.at("version").text()});
    }
    plan_.unruled_ops = root_.at("unruled_ops").texts();
    plan_.notes = root_.at("notes").texts();
    if (const std::optional<JsonPlace> runner_up = root_.find("runner_up")) plan_.runner_up = read_runner_up(*runner_up, plan_.cluster);
    return !root_.failed();
  }

  bool read_model() {
    const JsonPlace place = root_.at("graph");
    Graph graph = read_graph(place);
    if (root_.failed()) return false;
    if (const Status status = validate(graph); !status) place.fail(status.error().message);
    check_ops(graph);
    if (root_.failed()) return false;
    Result<ModelAnalysis> model = analyze_model(std::move(graph), ops_);
    if (!model) place.fail(model.error().message);
    else plan_.model = std::move(*model);
    if (const std::optional<JsonPlace> recomputed = root_.find("recomputed"); recomputed && model) {
      plan_.recomputed = recomputed->texts();
      const Result<Recomputation> known = recomputation(plan_.model, plan_.recomputed);
      if (!known) recomputed->fail(known.error().message);
    }
    return !root_.failed();
  }

  // Of the planner's own ops a plan has those that it makes of a model's; all others stand in programs only.
  void check_ops(const Graph& graph) const {
    for (const Node& node : graph.nodes) {
      const bool is_composite = node.op == "meshwright.experts" || node.op == "meshwright.recurrent";
      if (node.op.starts_with("meshwright.") && !is_composite) root_.at("graph").fail("node '" + node.name + "': no plan has the op '" + node.op + "'");
    }
  }

  void read_choices() {
    for (ValueId id = 0; id < training_graph(plan_.model).values.size(); ++id) values_[training_graph(plan_.model).values[id].name] = id;
    for (const Source& source : plan_.graph().sources) {
      if (source.kind == SourceKind::parameter && !source.names.empty()) values_[source.names[0]] = source.value;
    }
    for (NodeId id = 0; id < plan_.graph().nodes.size(); ++id) nodes_[plan_.graph().nodes[id].name] = id;
    for (const JsonPlace& variable : root_.at("variables").elements()) plan_.variables.push_back(read_variable(variable));
    for (const JsonPlace& constant : root_.at("constants").elements()) plan_.constants.push_back(read_constant(constant));
    if (root_.failed()) return;
    for (const JsonPlace& one : root_.at("conversions").elements()) {
      plan_.conversions.push_back(read_conversion(one));
      if (root_.failed()) return;
    }
  }

  // A parameter goes by its name in the model, any other value by the graph's. 0 where there is none.
  ValueId read_value(const JsonPlace& place, bool of_forward) const {
    const std::string name = place.text();
    const auto found = values_.find(name);
    if (found != values_.end() && !(of_forward && found->second >= plan_.graph().values.size())) return found->second;
    place.fail("the graph has no value '" + name + "'");
    return 0;
  }

  Layout read_layout(const JsonPlace& place, ValueId value) const {
    if (place.failed()) return Layout(plan_.mesh.rank());
    const Result<Layout> layout = parse_layout(place.text(), plan_.shape(value), plan_.mesh.rank());
    if (layout) return *layout;
    place.fail(layout.error().message);
    return Layout(plan_.mesh.rank());
  }

  // A port of a variable: the value's name and how it and its gradient lie.
  PortLayouts read_port(const JsonPlace& place, ValueId value) const {
    PortLayouts layouts{Layout(plan_.mesh.rank()), Layout(plan_.mesh.rank())};
    const ValueId named = read_value(place.at("value"), true);
    if (place.failed()) return layouts;
    if (named != value) place.fail("the graph has '" + plan_.name(value) + "' here, and not '" + plan_.name(named) + "'");
    layouts.value = read_layout(place.at("layout"), value);
    if (plan_.graph().values[value].requires_gradient) layouts.gradient = read_layout(place.at("gradient_layout"), value);
    return layouts;
  }

  std::vector<AxisChoice> read_axes(const JsonPlace& place, const AtomizedNode& node) const {
    std::vector<AxisChoice> axes;
    for (const std::string& text : place.texts()) {
      const std::optional<AxisChoice> choice = parse_axis_choice(text, node);
      if (!choice) place.fail("the op's rule has no factor '" + text + "' to shard; it is " + to_string(node.rule));
      axes.push_back(choice.value_or(AxisChoice{}));
    }
    if (axes.size() != plan_.mesh.rank()) place.fail(std::to_string(plan_.mesh.rank()) + " axes are expected");
    return axes;
  }

  // The layouts that follow from axes.
  CallLayouts read_call(const JsonPlace& axes, NodeId id) const {
    const AtomizedNode& node = training_atoms(plan_.model).nodes[id];
    const std::vector<AxisChoice> choices = read_axes(axes, node);
    if (axes.failed()) return {};
    std::optional<CallLayouts> call = derive_layouts(training_graph(plan_.model), training_atoms(plan_.model), id, plan_.mesh, choices);
    if (!call) axes.fail("its tensors cannot be sharded like this on a mesh " + to_string(plan_.mesh));
    return std::move(call).value_or(CallLayouts{});
  }

  PlannedNode read_node(const JsonPlace& place) const {
    PlannedNode planned;
    const JsonPlace name = place.at("name");
    const auto found = nodes_.find(name.text());
    if (found == nodes_.end()) name.fail("the graph has no node '" + name.text() + "'");
    if (place.failed()) return planned;
    planned.node = found->second;
    const Node& node = plan_.graph().nodes[planned.node];
    planned.call.axes = read_axes(place.at("axes"), plan_.model.atoms->nodes[planned.node]);
    const std::vector<JsonPlace> operands = place.at("operands").elements(), results = place.at("results").elements();
    if (operands.size() != node.operands.size()) place.at("operands").fail("the node has " + std::to_string(node.operands.size()));
    if (results.size() != node.results.size()) place.at("results").fail("the node has " + std::to_string(node.results.size()));
    if (place.failed()) return planned;
    for (std::size_t i = 0; i < operands.size(); ++i) planned.call.operands.push_back(read_port(operands[i], node.operands[i].value));
    for (std::size_t i = 0; i < results.size(); ++i) planned.call.results.push_back(read_port(results[i], node.results[i]));
    if (!plan_.model.backward) return planned;
    const std::vector<NodeId>& gradient = plan_.model.backward->backward_of[planned.node];
    const auto list = place.find("backward");
    const std::vector<JsonPlace> backward = list ? list->elements() : std::vector<JsonPlace>{};
    if (backward.size() != gradient.size()) {
      place.fail("its gradient has " + std::to_string(gradient.size()) + " nodes, and the plan " + std::to_string(backward.size()) +
                 "; was the plan made with other op families?");
    }
    for (std::size_t i = 0; i < backward.size() && !place.failed(); ++i) {
      const Node& known = training_graph(plan_.model).nodes[gradient[i]];
      if (backward[i].at("node").text() != known.name || backward[i].at("op").text() != known.op) {
        backward[i].fail("its gradient has " + known.op + " '" + known.name + "' here; was the plan made with other op families?");
      }
      planned.backward.push_back(read_call(backward[i].at("axes"), gradient[i]));
    }
    return planned;
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
    const VariableKind kind = place.at("kind").one_of(VariableKind::output, [](VariableKind each) { return word(each); });
    if (place.failed()) return variable;
    if (kind == VariableKind::node) {
      variable.choice = read_node(place);
    } else {
      const JsonPlace port = place.at(kind == VariableKind::output ? "operands" : "results").elements(1)[0];
      const ValueId value = read_value(port.at("value"), true);
      if (place.failed()) return variable;
      if (!plan_.graph().values[value].requires_gradient) port.fail("'" + plan_.name(value) + "' has no gradient, and nothing is planned for it");
      const PortLayouts layouts = read_port(port, value);
      if (kind == VariableKind::parameter) variable.choice = read_parameter(place, value, layouts);
      else if (kind == VariableKind::fork) variable.choice = PlannedFork{value, layouts};
      else variable.choice = PlannedOutput{value, layouts};
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

  PlannedParameter read_parameter(const JsonPlace& place, ValueId value, const PortLayouts& stored) const {
    const Layout compute = read_layout(place.at("compute_layout"), value), state = read_layout(place.at("state_layout"), value);
    return {value, stored, compute, state, place.at("zero").one_of(ZeroStage::value, [](ZeroStage stage) { return word(stage); }),
            place.at("regather").boolean(), place.at("prefetch").boolean()};
  }

  PlannedConstant read_constant(const JsonPlace& place) const {
    PlannedConstant constant;
    constant.value = read_value(place.at("value"), false);
    if (place.failed()) return constant;
    const NodeId producer = training_graph(plan_.model).values[constant.value].producer;
    if (producer == kNoId) place.fail("nothing makes it");
    constant.wanted = read_layout(place.at("layout"), constant.value);
    if (!place.failed()) constant.made = read_call(place.at("axes"), producer);
    return constant;
  }

  PlannedMove read_move(const JsonPlace& place, const PlannedConversion& conversion, const Layout& from) const {
    const auto read_axis = [&](const JsonPlace& axis) { return static_cast<std::uint8_t>(axis.index(plan_.mesh.rank(), "mesh axes")); };
    Move said;
    said.kind = place.at("kind").one_of(MoveKind::keep_one, [](MoveKind each) { return name(each); });
    if (const auto axes = place.find("axes")) {
      AxisSet all = 0;
      for (const JsonPlace& axis : axes->elements()) all |= AxisSet{1} << read_axis(axis);
      said.axis = static_cast<std::uint8_t>(std::countr_zero(all));
      said.joined = all & (all - 1);
      if (said.joined == 0) axes->fail("one collective over several axes has two of them or more");
    } else {
      said.axis = read_axis(place.at("axis"));
    }
    if (said.kind == MoveKind::permute) said.other_axis = read_axis(place.at("other_axis"));
    said.result = read_layout(place.at("layout"), conversion.value);
    const std::int64_t bytes = place.at("bytes").integer(0);
    PlannedMove planned{{}, place.at("seconds").seconds()};
    if (place.failed()) return planned;
    const CostProfile unpriced;
    const AtomShape& shape = plan_.shape(conversion.value);
    const std::optional<Move> move = find_move(plan_.problem(conversion, unpriced), from, said);
    if (!move) place.fail(std::string("no ") + name(said.kind) + " over " + axes_text(said) + " leads from " + to_string(from, shape) + " to " + to_string(said.result, shape));
    else planned.move = *move;
    const std::int64_t expected = plan_.local_bytes(conversion, from);
    if (bytes != expected) place.fail("the move is said to take " + std::to_string(bytes) + " bytes, and has " + std::to_string(expected));
    return planned;
  }

  PlannedConversion read_conversion(const JsonPlace& place) const {
    PlannedConversion conversion;
    conversion.value = read_value(place.at("value"), false);
    if (const auto from = place.find("from")) {
      conversion.from = from->index(plan_.variables.size(), "variables");
      conversion.to = place.at("to").index(plan_.variables.size(), "variables");
    }
    const JsonPlace direction = place.at("direction");
    conversion.gradient = direction.text() == "backward";
    if (!conversion.gradient && direction.text() != "forward") {
      direction.fail("'" + direction.text() + "' is none of forward, backward");
    }
    if (const auto operand = place.find("operand")) conversion.to_port = operand->index(kMostOperands, "operands");
    conversion.hides = place.at("hides").boolean();
    conversion.times = place.at("times").integer(1, 2 * plan_.training.microbatches);  // gathered twice
    if (place.failed()) return conversion;
    if ((conversion.gradient || conversion.hides) && conversion.value >= plan_.graph().values.size()) {
      place.fail("'" + plan_.name(conversion.value) + "' belongs to the backward of one op");
      return conversion;
    }
    conversion.source = read_layout(place.at("source_layout"), conversion.value);
    conversion.target = read_layout(place.at("target_layout"), conversion.value);
    if (!place.failed() && !fits(conversion.source, plan_.shape(conversion.value), plan_.mesh)) place.at("source_layout").fail("it cannot lie so on a mesh " + to_string(plan_.mesh));
    const JsonPlace moves = place.at("moves");
    for (const JsonPlace& move : moves.elements()) {
      if (place.failed()) return conversion;
      const Layout from = conversion.moves.empty() ? conversion.source : conversion.moves.back().move.result;
      conversion.moves.push_back(read_move(move, conversion, from));
    }
    check_seconds(place, conversion);
    return conversion;
  }

  // Each is rounded to the clock's ticks by itself.
  static void check_seconds(const JsonPlace& place, const PlannedConversion& conversion) {
    constexpr double kRounding = 1e-6;
    const JsonPlace said = place.at("seconds");
    const double seconds = said.seconds(), sum = conversion.seconds();
    if (place.failed() || std::abs(seconds - sum) <= kRounding * std::max(seconds, sum)) return;
    said.fail("its moves take " + std::to_string(sum) + " s, and it is said to take " + std::to_string(seconds) + " s");
  }

  static constexpr std::size_t kMostOperands = 1 << 20;

  JsonPlace root_;
  const OpTable& ops_;
  Plan plan_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, NodeId> nodes_;
};

}  // namespace

Plan read_plan_at(const JsonPlace& place, const OpTable& ops) { return PlanReader(place, ops).run(); }

Plan read_whole_plan_at(const JsonPlace& place, const OpTable& ops) {
  Plan plan = read_plan_at(place, ops);
  if (place.failed()) return plan;
  const auto is_received = [](const Source& source) { return source.kind == SourceKind::received; };
  const auto is_sent = [](const Output& output) { return output.kind == OutputKind::sent; };
  if (std::ranges::any_of(plan.graph().sources, is_received) || std::ranges::any_of(plan.graph().outputs, is_sent))
    place.fail("it is one stage of a pipeline, which runs with the others only; take the plan of the whole pipeline");
  return plan;
}

Result<Plan> parse_plan(std::string_view text, const std::string& name, const OpTable& ops) {
  const Result<Json> json = parse_json(text, name);
  if (!json) return json.error();
  std::optional<std::string> problem;
  Plan plan = read_whole_plan_at(JsonPlace(*json, problem), ops);
  if (problem) return bad_input(name + ": " + *problem);
  return plan;
}

Result<std::string> read_plan_text(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return bad_input(path + ": cannot read the plan: the file is missing, unreadable or empty");
  return std::move(text).str();
}

Result<Plan> read_plan(const std::string& path, const OpTable& ops) {
  const Result<std::string> text = read_plan_text(path);
  if (!text) return text.error();
  return parse_plan(*text, path, ops);
}

}  // namespace meshwright::host
