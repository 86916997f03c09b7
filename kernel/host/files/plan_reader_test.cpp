#include "files/plan_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <set>

#include "report/plan_json.h"

namespace meshwright::host {
namespace {

// One family, for all ops: a product that may be sharded over its rows, and a mean.
class Family final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::string& op = call.node.op;
    return parse_rule(op == "test.linear"       ? "b !k, !n !k -> b !n"
                      : op == "test.linear_backward" ? "b !n, b !k -> !n !k"
                      : op == "test.mean"       ? "!b !n ->"
                      : op == "test.mean_backward"   ? " -> !b !n"
                                                : "->",
                      call.operands, call.results);
  }
  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const bool is_mean = call.node.op == "test.mean" && call.operand("self") != kNoId;
    const bool is_linear = call.node.op == "test.linear" && call.operand("input") != kNoId && call.operand("weight") != kNoId;
    if ((!is_mean && !is_linear) || call.node.operands.size() != (is_mean ? 1 : 2)) return bad_input("it has none");
    if (is_mean) {
      return std::vector<ValueId>{call.build.emit("test.mean_backward", {{"grad", call.result_gradients[0]}}, {}, call.type(call.operand("self")))};
    }
    return std::vector<ValueId>{kNoId, call.build.emit("test.linear_backward", {{"grad", call.result_gradients[0]}, {"input", call.operand("input")}}, {},
                                                       call.type(call.operand("weight")))};
  }
};

class Families final : public OpTable {
 public:
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return &family_; }

 private:
  Family family_;
};

const Families kOps;

// The fewest moves.
class Breadth final : public ConversionSearch {
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    struct Reached {
      Layout layout;
      ConversionPath path;
    };
    std::deque<Reached> open = {{from, {}}};
    std::set<Layout> seen = {from};
    for (; !open.empty(); open.pop_front()) {
      if (open.front().layout == to) return open.front().path;
      for (const Move& move : one_step_moves(problem, open.front().layout)) {
        if (!seen.insert(move.result).second) continue;
        Reached next{move.result, open.front().path};
        next.path.ticks += move_price(problem, open.front().layout, move).ticks;
        next.path.moves.push_back(move);
        open.push_back(std::move(next));
      }
    }
    return infeasible("no way");
  }
};

Graph small_graph() {
  Graph graph;
  graph.name = "small";
  graph.values = {{"p_weight", {DType::float32, {4, 2}}, kNoId, true},
                  {"x", {DType::float32, {8, 2}}, kNoId, false},
                  {"linear", {DType::float32, {8, 4}}, 0, true},
                  {"loss", {DType::float32, {}}, 1, true}};
  graph.sources = {{SourceKind::parameter, 0, {"weight", "tied"}}, {SourceKind::user_input, 1, {"x"}}};
  Node linear{"test.linear", "linear", "mlp", {{"input", 1}, {"weight", 0}}, {}, {2}};
  linear.attributes = {{"none", {}},
                       {"yes", true},
                       {"one", std::int64_t{1}},
                       {"real", 1.0},
                       {"infinite", -INFINITY},
                       {"not_a_number", NAN},
                       {"word", std::string("tanh")},
                       {"sizes", std::vector<std::int64_t>{1, 2}},
                       {"no_sizes", std::vector<std::int64_t>{}},
                       {"reals", std::vector<double>{1, 0.5}},
                       {"no_reals", std::vector<double>{}},
                       {"infinite_reals", std::vector<double>{1, INFINITY}}};
  graph.nodes = {linear, {"test.mean", "mean", "", {{"self", 2}}, {}, {3}}};
  graph.outputs = {{OutputKind::loss, 3, ""}};
  return graph;
}

// Rows of x are shared; the weight is stored in shards, and gathered for it twice.
Plan small_plan() {
  Cluster cluster;
  cluster.name = "pair";
  cluster.device = {"toy", 1000, 10.5, {{DType::float32, 1e12}, {DType::bfloat16, 2e12}}, 1e11, 1e-6, 0.5, 0.75, 1e9};
  cluster.devices_per_node = 2;
  cluster.reserved_bytes = 10;
  cluster.device.product_curves[DType::float32] = {{1e6, 1e9}, {1e9, 1e10}};
  cluster.device.memory_curve = {{1e3}, {1e9}};
  cluster.device.overheads = {20, 30, 40, 50, 8, 64, 128, 0.125};
  cluster.levels = {{"link", 2, 1e9, 1e-6, 1, true}};
  Mesh mesh;
  mesh.axes = {{2, 1e-6, 1e-9, "link"}};
  TrainingSettings training;
  training.param_dtype = DType::bfloat16;
  const CostProfile profile{cluster.device};
  const ModelAnalysis model = analyze_model(small_graph(), kOps).value();
  const Breadth conversions;
  StrategyFilter filter;
  filter.zero = ZeroStage::value;
  filter.regather = filter.prefetch = true;
  const ProblemInput input{{model, training, kOps, profile, conversions}, mesh, filter};
  const Problem problem = build_problem(input).value();
  Assignment assignment;
  for (const Variable& variable : problem.variables) {
    const std::vector<Strategy>& strategies = variable.set->strategies;
    const auto wanted = std::find_if(strategies.begin(), strategies.end(), [&](const Strategy& one) {
      if (variable.kind == VariableKind::parameter) return one.parameter()->compute.is_replicated();
      return variable.name == "linear" ? one.node()->call.axes[0].use == AxisUse::factor : true;
    });
    assignment.choice.push_back(static_cast<std::uint32_t>(wanted - strategies.begin()));
  }
  assignment.status = SolveStatus::bounded;
  assignment.method = "by hand";
  assignment.peak_bytes = 77;
  Plan plan = make_plan(input, problem, assignment).value();
  plan.model_path = "small.pt2";
  plan.model_hash = "fnv1a64:0123456789abcdef";
  plan.cluster = cluster;
  plan.plugins = {{"intra", "elimination", "0.1.0"}};
  plan.budget_bytes = 990;
  plan.memory = memory_account(cluster, {70, 7}, 2);
  plan.objective_seconds = 0.1;
  plan.variables[1].forward_seconds = 0.25;
  plan.unruled_ops = {"thirdparty.op"};
  plan.notes = {"a note"};
  plan.runner_up = {"2", 0.15, 0.25, {"weight R from S0"}, {{CostCoefficient::link_bandwidth, "link", 0.01, 0.02, 0.625}, {CostCoefficient::host_time, "", 0, -0.001, {}}}};
  return plan;
}

std::string text_of(const Plan& plan) { return write_json(plan_json(plan)); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text) {
  const Result<Plan> plan = parse_plan(text, "plan.json", kOps);
  if (plan.ok()) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::bad_input) << plan.error().message;
  EXPECT_TRUE(plan.error().message.starts_with("plan.json: ")) << plan.error().message;
  return plan.error().message.substr(std::string("plan.json: ").size());
}

TEST(PlanReader, WritingWhatWasReadGivesTheSameBytes) {
  const std::string text = text_of(small_plan());
  const Result<Plan> plan = parse_plan(text, "plan.json", kOps);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(text_of(*plan), text);
}

TEST(PlanReader, KeepsTheKindOfEveryAttribute) {
  const Result<Plan> plan = parse_plan(text_of(small_plan()), "plan.json", kOps);
  ASSERT_TRUE(plan.ok());
  Graph graph = plan->graph();
  Graph expected = small_graph();
  EXPECT_TRUE(std::isnan(std::get<double>(graph.nodes[0].attributes.at("not_a_number"))));
  graph.nodes[0].attributes.erase("not_a_number");  // it equals nothing
  expected.nodes[0].attributes.erase("not_a_number");
  EXPECT_EQ(graph, expected);
}

TEST(PlanReader, IgnoresKeysThatItDoesNotKnow) {
  EXPECT_EQ(message_of(replaced(text_of(small_plan()), "\"status\"", "\"later\": [1], \"status\"")), "");
}

TEST(PlanReader, RefusesOneStageOfAPipeline) {
  EXPECT_EQ(message_of(replaced(text_of(small_plan()), "\"kind\": \"user_input\"", "\"kind\": \"received\"")),
            "it is one stage of a pipeline, which runs with the others only; take the plan of the whole pipeline");
}

TEST(PlanReader, ReadsTheAccountAndTheOverheadsThatItIsOf) {
  const Plan written = small_plan();
  ASSERT_GT(written.memory.rounding_bytes, 0);
  ASSERT_GT(written.memory.fragmentation_bytes, 0);
  const Result<Plan> plan = parse_plan(text_of(written), "plan.json", kOps);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->memory, written.memory);
  EXPECT_EQ(plan->cluster.device.overheads, written.cluster.device.overheads);
}

// A plan of before there were accounts.
TEST(PlanReader, TakesThePeakAndWhatTheClusterReservesWhereThereIsNoAccount) {
  const std::string without_account = replaced(text_of(small_plan()), "\"memory\": {", "\"once\": {");
  const std::string text = replaced(without_account, "\"memory_overheads\": {", "\"once\": {");
  const Result<Plan> plan = parse_plan(text, "plan.json", kOps);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  MemoryAccount expected;
  expected.program_bytes = 77;
  expected.reserved_bytes = 10;
  EXPECT_EQ(plan->memory, expected);
  EXPECT_EQ(plan->cluster.device.overheads, MemoryOverheads{});
}

TEST(PlanReader, SaysWhatIsWrongAndWhere) {
  const std::string good = text_of(small_plan());
  struct Case {
    std::string from, to, message;
  };
  for (const Case& wrong : {
           Case{"meshwright-plan", "other", "this is no plan of Meshwright"},
           Case{"\"format_version\": 4", "\"format_version\": 3",
                "format_version: the file has version 3, and this program reads version 4; plan again"},
           Case{"\"method\"", "\"methods\"", "the key 'method' is missing"},
           Case{"\"nodes\": 1,", "\"nodes\": \"1\",", "cluster.nodes: expected a whole number, not '1'"},
           Case{"\"nodes\": 1,", "\"nodes\": 0,", "cluster.nodes: 0 is out of range: at least 1 is allowed"},
           Case{"\"bounded\"", "\"infeasible\"", "status: 'infeasible' is none of optimal, bounded, heuristic"},
           Case{"\"adamw\"", "\"lion\"", "training.optimizer: 'lion' is none of sgd, momentum, adam, adamw"},
           Case{"\"size\": 2", "\"size\": 4", "mesh: the axes make 4 devices, and the cluster has 2"},
           Case{"\"kind\": \"node\"", "\"kind\": \"nod\"",
                "variables[1].kind: 'nod' is none of parameter, node, fork, output"},
           Case{"\"from\": 0", "\"from\": 9", "conversions[0].from: 9 is out of range: there are 4 variables"},
           Case{"\"from\": 0", "\"from\": 2", "the plan's conversion of 'weight': it joins other variables than the model does"},
           Case{"\"operand\": 1", "\"operand\": 5",
                "the plan's conversion of 'weight': it joins other variables than the model does"},
           Case{"\"node\": \"grad_", "\"node\": \"grid_", "variables[1].backward[0]: its gradient has test.linear_backward 'grad_4' here; was the plan made with other op families?"},
           Case{"\"axis\": 0", "\"axis\": 1", "conversions[0].moves[0].axis: 1 is out of range: there are 1 mesh axes"},
           Case{"\"kind\": \"all_gather\"", "\"kind\": \"gather\"",
                "conversions[0].moves[0].kind: 'gather' is none of slice, all_gather, all_to_all, all_reduce, "
                "reduce_scatter, permute, keep_one"},
           Case{"\"direction\": \"forward\"", "\"direction\": \"up\"",
                "conversions[0].direction: 'up' is none of forward, backward"},
           Case{"\"value\": \"weight\"", "\"value\": \"wait\"",
                "variables[0].results[0].value: the graph has no value 'wait'"},
           Case{"\"kind\": \"loss\",\n        \"value\": 3", "\"kind\": \"loss\",\n        \"value\": 4",
                "graph.outputs[0].value: 4 is out of range: there are 4 values"},
           Case{"\"infinite\": {\n            \"real\": \"-inf\"", "\"infinite\": {\n            \"real\": \"big\"",
                "graph.nodes[0].attributes.infinite.real: 'big' is none of inf, -inf, nan"},
           Case{"\"results\": [\n          3", "\"results\": [\n          2",
                "graph.nodes: 'linear' is the result of two nodes"},
           Case{"\"float32\",\n        [\n          4", "\"float33\",\n        [\n          4",
                "graph.values[0][1]: 'float33' is no dtype"},
           Case{"          4,\n          2", "          -4,\n          2",
                "graph.values[0][2][0]: -4 is out of range: at least 0 is allowed"},
           Case{"\"microbatches\": 1", "\"microbatches\": 4000000000", "training.microbatches: 4000000000 is out of range: at most 4096 is allowed"},
           Case{"\"forward_seconds\": 0.25", "\"forward_seconds\": -0.25", "variables[1].forward_seconds: -0.25 is out of range"},
           Case{"\"lower_bound_seconds\": 0.0", "\"lower_bound_seconds\": 0.2", "lower_bound_seconds: it is above objective_seconds, which it bounds from below"},
           Case{"\"times\": 1", "\"times\": 3", "conversions[0].times: 3 is out of range: at most 2 is allowed"},
           Case{"\"program_bytes\": 77", "\"program_bytes\": 76",
                "memory.program_bytes: it is 76, and peak_bytes is 77; they are the same figure"},
           Case{"\"communicators\": 2", "\"communicators\": -2",
                "memory.communicators: -2 is out of range: at least 0 is allowed"},
           Case{"\"communicator_bytes\": 100", "\"communicator_bytes\": 99",
                "memory.total_bytes: it is 416, and its parts add up to 415"},
           Case{"\"fragmentation\": 0.125", "\"fragmentation\": 2",
                "cluster.memory_overheads.fragmentation: 2 is out of range"},
           Case{"\"context_bytes\": 30,\n      \"workspace", "\"context_bytes\": 980,\n      \"workspace",
                "cluster: cluster 'pair': driver, context and workspace of the device and reserved_bytes of the "
                "cluster are together no less than the device's memory, 1000 bytes, and leave nothing for a program"},
           Case{"\"mesh\": \"2\"", "\"mesh\": \"4\"", "runner_up.mesh: its axes make 4 devices, and the cluster has 2"},
           Case{"\"mesh\": \"2\"", "\"mesh\": \"2y\"", "runner_up.mesh: mesh '2y': write axis sizes like 8, 2x4 or 2x2x2"},
           Case{"\"step_seconds\": 0.25", "\"step_seconds\": -1.0", "runner_up.step_seconds: -1 is out of range"},
           Case{"\"link_bandwidth\"", "\"bandwidth\"",
                "runner_up.break_evens[0].coefficient: 'bandwidth' is none of link_bandwidth, link_latency, product_rate, attention_rate, memory_bandwidth, host_time"},
           Case{"\"level\": \"link\"", "\"level\": \"ring\"", "runner_up.break_evens[0].level: the cluster has no level 'ring'"},
           Case{"\"level\": \"link\"", "\"once\": \"link\"", "runner_up.break_evens[0]: it has no level, and is a coefficient of links"},
           Case{"\"link_bandwidth\"", "\"host_time\"", "runner_up.break_evens[0].level: only a coefficient of links has a level"},
           Case{"\"factor\": 0.625", "\"factor\": 9.0", "runner_up.break_evens[0].factor: 9 is out of range"},
           Case{"\"factor\": 0.625", "\"factor\": \"half\"", "runner_up.break_evens[0].factor: expected a number, not 'half'"},
           Case{"\"coefficient\": \"host_time\"", "\"level\": \"link\", \"coefficient\": \"link_bandwidth\"", "runner_up.break_evens[1]: the coefficient stands there twice"},
           Case{"\"objective_seconds\": 0.1", "\"objective_seconds\": 1e300", "objective_seconds: 1e+300 is out of range"},
           Case{"\"op\": \"test.linear\",\n        \"module\"", "\"op\": \"meshwright.pad_backward\",\n        \"module\"", "graph: node 'linear': no plan has the op 'meshwright.pad_backward'"},
           Case{"\"name\": \"mean\",\n        \"op\": \"test.mean\",\n        \"module\"", "\"name\": \"linear\",\n        \"op\": \"test.mean\",\n        \"module\"", "graph: graph 'small': two nodes are named 'linear'"},
       }) {
    EXPECT_EQ(message_of(replaced(good, wrong.from, wrong.to)), wrong.message) << wrong.from;
  }
  EXPECT_EQ(message_of("[]"), "expected an object, not an array");
  EXPECT_EQ(message_of("3"), "expected an object, not 3");
  EXPECT_EQ(message_of(good.substr(0, good.size() / 2)).substr(0, 16), "not valid JSON: ");
}

// Calls `visit` with the document once for each change at each of its places.
void for_each_damage(const Json& json, const std::function<void(const Json&)>& visit) {
  for (const Json& other : {Json(nullptr), Json(true), Json(-1), Json(1e300), Json(std::int64_t{1} << 62), Json("x"),
                            Json(Json::Array{}), Json(Json::Object{}), Json(Json::Array{Json(Json::Object{})})}) {
    visit(other);
  }
  if (const auto* array = std::get_if<Json::Array>(&json.value())) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      Json::Array without = *array;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      visit(without);
      for_each_damage((*array)[i], [&](const Json& damaged) {
        Json::Array changed = *array;
        changed[i] = damaged;
        visit(changed);
      });
    }
  }
  if (const auto* object = std::get_if<Json::Object>(&json.value())) {
    for (std::size_t i = 0; i < object->size(); ++i) {
      Json::Object without = *object;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      visit(without);
      for_each_damage((*object)[i].second, [&](const Json& damaged) {
        Json::Object changed = *object;
        changed[i].second = damaged;
        visit(changed);
      });
    }
  }
}

// What the damage leaves readable (an unused text, a time) must come back as it went in.
TEST(PlanReader, DamageGivesASentenceOrAPlanThatIsWrittenAgain) {
  int refused = 0;
  int read = 0;
  for_each_damage(plan_json(small_plan()), [&](const Json& damaged) {
    const Result<Plan> plan = parse_plan(write_json(damaged, true), "plan.json", kOps);
    if (plan.ok()) {
      const std::string again = text_of(*plan);
      const Result<Plan> second = parse_plan(again, "again", kOps);
      ASSERT_TRUE(second.ok()) << second.error().message;
      EXPECT_EQ(text_of(*second), again);
      ++read;
      return;
    }
    EXPECT_EQ(plan.error().code, ErrorCode::bad_input) << plan.error().message;
    EXPECT_TRUE(plan.error().message.starts_with("plan.json: ")) << plan.error().message;
    ++refused;
  });
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 5 * read);
}

TEST(PlanReader, EveryCutIsRefused) {
  const std::string good = write_json(plan_json(small_plan()), true);
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    EXPECT_NE(message_of(good.substr(0, length)), "") << length;
  }
}

TEST(PlanReader, NamesTheFileThatIsMissing) {
  const Result<Plan> plan = read_plan("/nowhere/plan.json", kOps);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::bad_input);
  EXPECT_EQ(plan.error().message, "/nowhere/plan.json: cannot read the plan: the file is missing, unreadable or empty");
  EXPECT_FALSE(read_plan("/", kOps).ok());
}

}  // namespace
}  // namespace meshwright::host
