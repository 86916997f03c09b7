#include "conformance.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "altered_ops.h"
#include "drawn_plan.h"
#include "meshwright/timeline.h"
#include "verify.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostFindings = 5;  // of one call on one mesh: more say nothing new

// What one execution came to.
struct Outcome {
  bool equal = false;
  std::string problem;
};

// One call with its loss, on one mesh.
class CallOnMesh {
 public:
  CallOnMesh(const OpCase& op_case, const OpTable& ops, const ConformanceTools& tools, const Mesh& mesh)
      : ops_(ops), tools_(tools), mesh_(mesh), profile_(plain_profile()), op_case_(op_case), sources_(draw_sources(op_case, 1)) {}

  // Errors: what stands in the way of executing it at all.
  Status prepare() {
    Result<ModelAnalysis> model = analyze_model(with_loss(op_case_, sources_), ops_);
    if (!model) return model.error();
    if (!model->backward) return model->no_backward;
    model_ = std::move(*model);
    input_.emplace(ProblemInput{{model_, training_, ops_, profile_, tools_.conversions}, mesh_, {}});
    Result<Problem> problem = build_problem(*input_);
    if (!problem) return problem.error();
    problem_ = std::move(*problem);
    // The call itself, or the product that uses its results if it has no gradient.
    for (std::size_t i = 0; i < problem_.variables.size(); ++i) {
      if (problem_.variables[i].kind != VariableKind::node) continue;
      variable_ = i;
      break;
    }
    return Done{};
  }

  [[nodiscard]] const std::vector<Strategy>& strategies() const { return problem_.variables[variable_].set->strategies; }
  [[nodiscard]] bool is_ruled() const { return model_.atoms->nodes[0].ruled; }
  [[nodiscard]] const std::string& warning() const { return model_.atoms->warnings[0]; }
  [[nodiscard]] bool is_the_call() const { return problem_.variables[variable_].node == 0; }

  [[nodiscard]] Outcome run(std::uint32_t strategy, double tolerance) const {
    Result<Plan> plan = draw_plan_with(*input_, problem_, variable_, strategy);
    if (!plan) return {false, plan.error().message};
    Result<Program> program = make_program(*plan, *input_, tools_.passes);
    if (!program) return {false, program.error().message};
    if (std::string problem = coupling_problem(*program, strategy); !problem.empty()) return {false, std::move(problem)};
    if (std::string problem = price_problem(*plan, *program, strategy); !problem.empty()) return {false, std::move(problem)};
    Result<Verification> result =
        verify({*model_.graph, *program, ops_, profile_, nullptr, tools_.backend, sources_, tolerance, 1e-3, {}});
    if (!result) return {false, result.error().message};
    if (result->equal) return {true, ""};
    if (!result->problem.empty()) return {false, result->problem};
    char error[64];
    std::snprintf(error, sizeof error, "%.2g", result->max_relative_error);
    return {false, "'" + result->worst_tensor + "' on rank " + std::to_string(result->worst_rank) + " is off by " + error +
                       " of its largest value"};
  }

  [[nodiscard]] std::string assignment(std::uint32_t strategy) const {
    std::string text;
    const std::vector<AxisChoice>& axes = strategies()[strategy].node()->call.axes;
    const AtomizedNode& node = model_.atoms->nodes[problem_.variables[variable_].node];
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      text += (axis > 0 ? ", axis " : "axis ") + std::to_string(axis) + ": " + to_string(axes[axis], node);
    }
    return text;
  }

  // Whether a strategy shards this factor of the call.
  [[nodiscard]] bool shards(std::uint32_t strategy, FactorId factor) const {
    for (const AxisChoice& choice : strategies()[strategy].node()->call.axes) {
      if (choice.use == AxisUse::factor && choice.factor == factor) return true;
    }
    return false;
  }

  [[nodiscard]] const Rule& rule() const { return model_.atoms->nodes[0].rule; }

 private:
  // What ranks send each other inside of the op, along other axes than those that its rule names. Empty: there is nothing.
  [[nodiscard]] std::string coupling_problem(const Program& program, std::uint32_t strategy) const {
    if (!is_the_call()) return "";
    std::set<std::size_t> said, sent;
    const std::vector<AxisChoice>& axes = strategies()[strategy].node()->call.axes;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const bool couples = axes[axis].use == AxisUse::factor && std::ranges::find(rule().coupled, axes[axis].factor) != rule().coupled.end();
      if (couples || axes[axis].use == AxisUse::exchange) said.insert(axis);
    }
    for (const Instruction& instruction : program.instructions) {
      const auto* step = std::get_if<MoveStep>(&instruction.action);
      if (step == nullptr || step->conversion != kNoId || instruction.name != model_.graph->nodes[0].name) continue;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        if (step->move.goes_over(axis)) sent.insert(axis);
      }
    }
    if (said == sent) return "";
    const auto text = [](const std::set<std::size_t>& of) {
      std::string list;
      for (const std::size_t axis : of) list += " " + std::to_string(axis);
      return list.empty() ? " none" : list;
    };
    return "by its rule (coupled, exchanges) ranks meet inside the op along the axes" + text(said) + ", and what it emits sends along" + text(sent);
  }

  // What the search prices for what ranks send inside of the op and of its backward, where its program takes something else.
  [[nodiscard]] std::string price_problem(const Plan& plan, const Program& program, std::uint32_t strategy) const {
    if (!is_the_call()) return "";
    const NodeStrategy& priced = *strategies()[strategy].node();
    double forward = 0, backward = 0;
    for (const Instruction& instruction : program.instructions) {
      const auto* step = std::get_if<MoveStep>(&instruction.action);
      if (step == nullptr || instruction.node != model_.graph->nodes[0].name) continue;
      if (step->conversion != kNoId && !is_inside(plan.conversions[step->conversion])) continue;
      const double seconds = to_seconds(instruction_ticks(program, instruction, ops_, profile_).value());
      (instruction.phase == Phase::forward ? forward : backward) += seconds;
    }
    const auto same = [](double a, double b) { return std::abs(a - b) < 1e-10; };  // each move is rounded to a picosecond
    if (same(forward, priced.forward_communication_seconds) && same(backward, priced.backward_communication_seconds)) return "";
    char text[192];
    std::snprintf(text, sizeof text, "the search prices what is sent inside at %.6f us forward and %.6f us backward; the program takes %.6f us and %.6f us",
                  1e6 * priced.forward_communication_seconds, 1e6 * priced.backward_communication_seconds, 1e6 * forward, 1e6 * backward);
    return text;
  }

  // Whether it converts something that the call has or makes, and not a constant.
  [[nodiscard]] bool is_inside(const PlannedConversion& conversion) const {
    if (!conversion.is_inside() || conversion.hides) return false;
    const Graph& graph = model_.backward->training.graph;
    const Value& value = graph.values[conversion.value];
    const bool made = value.producer != kNoId && (value.producer == 0 || value.producer >= model_.backward->training.first_backward);
    return made || value.requires_gradient;
  }

  const OpTable& ops_;
  const ConformanceTools& tools_;
  const Mesh mesh_;
  const CostProfile profile_;
  const TrainingSettings training_;
  const OpCase& op_case_;
  std::map<ValueId, Tensor> sources_;
  ModelAnalysis model_;
  std::optional<ProblemInput> input_;
  Problem problem_;
  std::size_t variable_ = 0;
};

class Checker {
 public:
  Checker(const ConformanceTools& tools, const ConformanceOptions& options) : tools_(tools), options_(options) {}

  ConformanceReport run(const std::vector<OpCase>& cases) {
    for (const OpCase& op_case : cases) {
      const std::string name = op_case.graph.nodes[0].op + ", case " + std::to_string(op_case.number);
      ++report_.calls;
      if (!check_on(op_case, name, {2})) continue;
      check_on(op_case, name, {2, 2});
      check_on(op_case, name, {2, 2, 2});
      if (options_.look_for_more) look_for_more(op_case, name);
    }
    return std::move(report_);
  }

 private:
  bool check_on(const OpCase& op_case, const std::string& name, const std::vector<std::int64_t>& shape) {
    const Mesh mesh = plain_mesh(shape);
    CallOnMesh call(op_case, tools_.ops, tools_, mesh);
    if (Status status = call.prepare(); !status) {
      report_.not_executed.push_back(name + ": " + status.error().message);
      return false;
    }
    if (!call.is_ruled()) {
      report_.replicated.push_back(name + ": " + call.warning());
      return false;
    }
    std::size_t findings = 0;
    for (const std::uint32_t strategy : chosen(call.strategies().size(), shape.size() > (options_.sample_planes ? 1 : 2))) {
      const Outcome outcome = call.run(strategy, options_.tolerance);
      ++report_.assignments;
      if (outcome.equal || ++findings > kMostFindings) continue;
      report_.wrong.push_back({name, to_string(mesh), call.assignment(strategy), outcome.problem});
    }
    return true;
  }

  // All strategies, or a sample of them.
  [[nodiscard]] std::vector<std::uint32_t> chosen(std::size_t count, bool sample) const {
    std::vector<std::uint32_t> numbers(count);
    for (std::uint32_t i = 0; i < count; ++i) numbers[i] = i;
    if (!sample || count <= options_.samples) return numbers;
    std::mt19937_64 random(options_.seed);
    for (std::size_t i = 0; i < options_.samples; ++i) std::swap(numbers[i], numbers[i + random() % (count - i)]);
    numbers.resize(options_.samples);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  // Each factor that is marked whole, as if it were not: if every strategy that shards it computes the truth, the rule
  // claims less than is so.
  void look_for_more(const OpCase& op_case, const std::string& name) {
    const Mesh mesh = plain_mesh({2});
    CallOnMesh plain(op_case, tools_.ops, tools_, mesh);
    if (!plain.prepare() || !plain.is_the_call()) return;
    const Rule& rule = plain.rule();
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
      if (!rule.factors[factor].whole || rule.factors[factor].size % 2 != 0) continue;
      const std::string wanted = rule.factors[factor].name;
      const AlteredOps altered(tools_.ops, op_case.graph.nodes[0].op, [&](Rule& changed) {
        for (Factor& here : changed.factors) here.whole &= here.name != wanted;
      });
      if (stands_sharded(op_case, altered, mesh, factor)) report_.could_shard.push_back(name + ": factor " + wanted + " of " + to_string(rule));
    }
  }

  bool stands_sharded(const OpCase& op_case, const OpTable& altered, const Mesh& mesh, FactorId factor) const {
    CallOnMesh call(op_case, altered, tools_, mesh);
    if (!call.prepare() || !call.is_the_call()) return false;
    bool any = false;
    for (std::uint32_t strategy = 0; strategy < call.strategies().size(); ++strategy) {
      if (!call.shards(strategy, factor)) continue;
      any = true;
      if (!call.run(strategy, options_.tolerance).equal) return false;
    }
    return any;
  }

  const ConformanceTools& tools_;
  const ConformanceOptions& options_;
  ConformanceReport report_;
};

}  // namespace

ConformanceReport check_conformance(const std::vector<OpCase>& cases, const ConformanceTools& tools,
                                    const ConformanceOptions& options) {
  return Checker(tools, options).run(cases);
}

std::string to_string(const ConformanceFinding& finding) {
  return finding.call + " on " + finding.mesh + ", " + finding.assignment + ": " + finding.problem;
}

}  // namespace meshwright
