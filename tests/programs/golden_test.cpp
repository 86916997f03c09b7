// What a few well-known plans execute, as text: golden/*.txt. MESHWRIGHT_UPDATE_GOLDEN=1 writes them again. They run with
// the kernels of `reference`, as a user's programs do.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "draft.h"
#include "meshwright/reduce.h"
#include "meshwright/solver.h"
#include "program_bench.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

// What is wanted of a variable: an op's axes ("n"), or a parameter's stored and computed layouts ("S0R computed as RR").
using Wishes = std::vector<std::pair<std::string, std::string>>;

std::string describe(const Variable& variable, const Strategy& strategy, const AtomizedGraph& atoms) {
  if (variable.kind == VariableKind::parameter) {
    const AtomShape& shape = atoms.values[variable.value];
    return to_string(strategy.result(0).value, shape) + " computed as " + to_string(strategy.parameter()->compute, shape);
  }
  std::string text;
  for (const AxisChoice& choice : strategy.node()->call.axes) {
    const std::string name = choice.use == AxisUse::factor ? atoms.nodes[variable.node].rule.factors[choice.factor].name
                             : choice.use == AxisUse::repeat ? "repeat"
                                                             : "partial";
    text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

// The best plan among those that do what is wished.
Plan plan_that(const ProblemInput& input, const Wishes& wishes) {
  Problem problem = build_problem(input).value();
  for (const auto& [name, wish] : wishes) {
    int found = 0;
    for (std::size_t i = 0; i < problem.variables.size(); ++i) {
      const Variable& variable = problem.variables[i];
      const bool named = variable.kind == VariableKind::node ? input.graph().nodes[variable.node].op == name
                                                              : variable.kind == VariableKind::parameter && variable.name == name;
      if (!named) continue;
      for (std::size_t s = 0; s < variable.set->strategies.size(); ++s) {
        if (describe(variable, variable.set->strategies[s], input.atoms()) == wish) ++found;
        else problem.space.nodes[i].costs[s] = kForbidden;
      }
    }
    EXPECT_GT(found, 0) << name << ": no strategy '" << wish << "'";
  }
  const Reduction reduction = reduce(problem.space);
  const auto solver = bench().host.create<IntraSolver>("intra", "elimination").value();
  const std::int64_t budgets[] = {kNoBudget};
  std::vector<Assignment> answers = solver->solve(reduction.space, budgets, {}).value();
  return make_plan(input, problem, reduction.lift(problem.space, std::move(answers[0]))).value();
}

TrainingSettings sgd(std::int64_t microbatches = 1) {
  TrainingSettings training;
  training.optimizer = Optimizer::sgd;
  training.microbatches = microbatches;
  return training;
}

void expect_golden(const std::string& name, const Graph& graph, const std::vector<std::int64_t>& shape, const Wishes& wishes,
                   const TrainingSettings& training = sgd(), const StrategyFilter& filter = {}) {
  const ModelAnalysis model = analyze_model(graph, *bench().tools.ops).value();
  const Mesh mesh = plain_mesh(shape);
  const CostProfile profile = plain_profile();
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, filter};
  const Program program = host::make_program(plan_that(input, wishes), bench().tools).value();
  const std::string text = to_string(program), path = SOURCE_FOLDER "/tests/programs/golden/" + name + ".txt";
  if (std::getenv("MESHWRIGHT_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str());
  const auto sources = sample_sources(graph, {}, 1).value();
  const auto further = sample_microbatches(graph, {}, training.microbatches).value();
  const std::unique_ptr<KernelTable> kernels = host::kernels_for(bench().host, "reference").value();
  const Verification result =
      verify({graph, program, *bench().tools.ops, profile, kernels.get(), *bench().reference, sources, 1e-4, 1e-3, further}).value();
  EXPECT_TRUE(result.equal) << result.worst_tensor << " " << result.max_relative_error;
}

Graph mlp() {
  Draft draft;
  // Scaled first, so that its gradient is wanted too.
  const ValueId x = draft.op("aten.mul.Tensor", {{"self", draft.input("tokens", DType::float32, {8, 16})}, {"other", draft.parameter("scale", {16})}}, {}, {8, 16});
  const ValueId up = draft.op("aten.linear", {{"input", x}, {"weight", draft.parameter("up.weight", {64, 16})}, {"bias", draft.parameter("up.bias", {64})}}, {}, {8, 64});
  const ValueId gelu = draft.op("aten.gelu", {{"self", up}}, {}, {8, 64});
  // The second one differs in its op so that a test can name it.
  const ValueId down = draft.op("aten.addmm", {{"self", draft.parameter("down.bias", {16})}, {"mat1", gelu}, {"mat2", draft.parameter("down.weight", {64, 16})}}, {}, {8, 16});
  return draft.finish("mlp", draft.op("aten.mean", {{"self", down}}, {}, {}));
}

Graph linear() {
  Draft draft;
  const ValueId x = draft.input("x", DType::float32, {8, 16});
  const ValueId y = draft.op("aten.linear", {{"input", x}, {"weight", draft.parameter("weight", {32, 16})}, {"bias", draft.parameter("bias", {32})}}, {}, {8, 32});
  return draft.finish("linear", draft.op("aten.sum", {{"self", y}}, {}, {}));
}

// A vocabulary of 50 on 4 devices: 13 rows each, 2 of them padding.
Graph language_model() {
  Draft draft;
  const ValueId tokens = draft.input("tokens", DType::int64, {8}), labels = draft.input("labels", DType::int64, {8});
  const ValueId embedded = draft.op("aten.embedding", {{"weight", draft.parameter("embedding", {50, 16})}, {"indices", tokens}}, {}, {8, 16});
  const ValueId logits = draft.op("aten.linear", {{"input", embedded}, {"weight", draft.parameter("head", {50, 16})}}, {}, {8, 50});
  return draft.finish("language_model",
                      draft.op("aten.cross_entropy_loss", {{"self", logits}, {"target", labels}}, {{"ignore_index", std::int64_t{-100}}}, {}));
}

TEST(GoldenProgram, MegatronsMlp) {
  expect_golden("megatron_mlp", mlp(), {2}, {{"aten.mul.Tensor", "repeat"}, {"aten.linear", "n"}, {"aten.gelu", "d1"}, {"aten.addmm", "k"}, {"aten.mean", "repeat"}, {"up.weight", "S0R computed as S0R"},
                                             {"up.bias", "S0 computed as S0"}, {"down.weight", "S0R computed as S0R"}, {"down.bias", "R computed as R"}});
}

TEST(GoldenProgram, DataParallelLinear) {
  expect_golden("data_parallel_linear", linear(), {4}, {{"aten.linear", "b0"}, {"weight", "RR computed as RR"}, {"bias", "R computed as R"}});
}

TEST(GoldenProgram, Zero3Linear) {
  expect_golden("zero3_linear", linear(), {4}, {{"aten.linear", "b0"}, {"weight", "S0R computed as RR"}, {"bias", "S0 computed as R"}});
}

// Two microbatches of data parallelism: what each stage reduces and gathers, and when.
void expect_stage(const std::string& name, ZeroStage stage, const TrainingSettings& training, bool regather = false) {
  StrategyFilter filter;
  filter.batch_axes = 1;
  filter.zero = stage;
  filter.regather = regather;
  expect_golden(name, linear(), {4}, {{"aten.linear", "b0"}}, training, filter);
}

TEST(GoldenProgram, MicrobatchesWithKeptGradients) { expect_stage("microbatches_kept", ZeroStage::none, sgd(2)); }

TEST(GoldenProgram, MicrobatchesWithReducedGradients) {
  TrainingSettings training = sgd(2);
  training.keep_gradients = false;
  expect_stage("microbatches_reduced", ZeroStage::none, training);
}

TEST(GoldenProgram, Zero1WithMicrobatches) { expect_stage("zero1_microbatches", ZeroStage::optimizer, sgd(2)); }

TEST(GoldenProgram, Zero2WithMicrobatches) { expect_stage("zero2_microbatches", ZeroStage::gradient, sgd(2)); }

// One unit (decision 039): what is gathered, and gathered again, begins with its phase.
TEST(GoldenProgram, Zero3WithMicrobatches) {
  StrategyFilter filter;
  filter.batch_axes = 1;
  filter.zero = ZeroStage::value;
  filter.regather = true;
  expect_golden("zero3_microbatches", mlp(), {4}, {}, sgd(2), filter);
}

TEST(GoldenProgram, VocabularyShardedEmbeddingAndCrossEntropy) {
  expect_golden("sharded_vocabulary", language_model(), {4}, {{"aten.embedding", "v"}, {"aten.linear", "n"}, {"aten.cross_entropy_loss", "c"}});
}

}  // namespace
}  // namespace meshwright::test
