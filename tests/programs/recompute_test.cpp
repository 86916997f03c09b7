// Blocks and ops whose forward runs again for their backward, and operands that are converted again: whatever the layouts and whichever they are, the step computes what one device
// computes, holds what is predicted, and is bounded by what the search says of its time and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <set>

#include "drawn_plan.h"
#include "kept_space.h"
#include "meshwright/memory_profile.h"
#include "meshwright/recompute.h"
#include "meshwright/reduce.h"
#include "meshwright/solver.h"
#include "meshwright/step_parts.h"
#include "meshwright/timeline.h"
#include "microbatches.h"
#include "program_bench.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

struct RecomputeDraws {
  const char* model;
  std::vector<std::int64_t> mesh;
  int count;
};

void PrintTo(const RecomputeDraws& draws, std::ostream* out) { *out << draws.model << " on " << to_string(plain_mesh(draws.mesh)); }

// Whole blocks, none of their ops, or some of them: by turns mostly these and mostly those. And operands, of whatever op: none, some, or all.
std::vector<std::string> drawn_names(const ModelAnalysis& model, std::mt19937_64& random) {
  std::vector<std::string> names;
  const std::uint64_t of_ops = 1 + random() % 4;
  for (const RecomputableBlock& block : blocks_of(model)) {
    const std::uint64_t drawn = random() % 4;
    if (drawn == 0) continue;
    if (drawn == 1) names.push_back(block.name);
    for (const NodeId id : block.nodes) {
      if (drawn > 1 && random() % 5 < of_ops && !model.backward->memory.nodes[id].view) names.push_back(model.graph->nodes[id].name);
    }
  }
  const std::uint64_t of_operands = random() % 4;
  for (const NodeOperand& operand : convertible_operands(model)) {
    if (random() % 3 < of_operands) names.push_back(operand_name(*model.graph, operand));
  }
  return names;
}

NodeId node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  return found == graph.nodes.end() ? kNoId : static_cast<NodeId>(found - graph.nodes.begin());
}

std::vector<std::string> all_operands(const ModelAnalysis& model) {
  return recomputed_names(model, std::vector<bool>(model.graph->nodes.size(), false), convertible_operands(model));
}

class Recompute : public testing::TestWithParam<RecomputeDraws> {};

TEST_P(Recompute, ComputesWhatOneDeviceComputes) {
  const OpTable& ops = *bench().tools.ops;
  const Mesh mesh = plain_mesh(GetParam().mesh);
  const CostProfile profile = plain_profile();
  std::mt19937_64 random(1);
  int ran_again = 0, converted = 0;
  for (int seed = 0; seed < at_most_draws(GetParam().count); ++seed) {
    TrainingSettings training;
    training.microbatches = seed % 3 == 2 ? 2 : 1;
    const Result<Graph> cut = cut_into_microbatches(read_model(GetParam().model), ops, training.microbatches, true);
    ASSERT_TRUE(cut) << cut.error().message;
    const ModelAnalysis model = make_float64_model(*cut, ops).value();
    const ProblemInput input{{model, training, ops, profile, *bench().tools.conversions}, mesh, {}, drawn_names(model, random)};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(input.recomputed.size()) + " names");
    const Problem problem = build_problem(input).value();
    const std::vector<std::uint32_t> choice = draw_choice(problem, static_cast<std::uint64_t>(seed)).value();
    const Plan plan = plan_of_choice(input, problem, choice).value();
    EXPECT_EQ(plan.recomputed, input.recomputed);
    const Result<Program> program = host::make_program(plan, bench().tools);
    ASSERT_TRUE(program) << program.error().message;
    const auto sources = sample_sources(*model.graph, {}, 1).value();
    const auto further = sample_microbatches(*model.graph, {}, training.microbatches).value();
    const Result<Verification> result = verify({*model.graph, *program, ops, profile, nullptr, *bench().reference, sources, 1e-9, 1e-3, further});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->equal) << result->worst_tensor << " on rank " << result->worst_rank << ": " << result->max_relative_error << " " << result->problem;
    EXPECT_EQ(result->bytes_sent_measured, result->bytes_sent_predicted);
    EXPECT_EQ(result->peak_bytes_measured, result->peak_bytes_predicted);
    EXPECT_LE(plan.peak_bytes, memory_profile(*program).peak_bytes);
    const StepParts parts(input, problem);
    const PathTable table = parts.of(choice);
    constexpr double kRounding = 1e-9;
    EXPECT_LE(length(table, longest_path(parts.places(), table)) / static_cast<double>(kTicksPerSecond), make_timeline(*program, ops, profile)->step_seconds * (1 + kRounding));
    for (const bool again : problem.recomputation.runs_again) ran_again += again ? 1 : 0;
    for (const Instruction& instruction : program->instructions) {
      const NodeId node = instruction.again && instruction.move() != nullptr ? node_named(*model.graph, instruction.node) : kNoId;
      if (node != kNoId && !problem.recomputation.runs(node)) ++converted;
    }
  }
  EXPECT_GT(ran_again, 0);
  EXPECT_GT(converted, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         testing::Values(RecomputeDraws{"gpt2_tiny", {2, 2}, 30}, RecomputeDraws{"gpt2_tiny", {4}, 30}, RecomputeDraws{"gpt2_tiny", {2, 2, 2}, 20}, RecomputeDraws{"bert_tiny", {2, 2}, 20},
                                         RecomputeDraws{"llama_tiny", {2, 2}, 20}, RecomputeDraws{"vit_tiny", {2, 2}, 20}, RecomputeDraws{"t5_tiny", {2, 2}, 15}, RecomputeDraws{"resnet_tiny", {2, 2}, 15},
                                         RecomputeDraws{"mixtral_tiny", {2, 2}, 15}, RecomputeDraws{"swin_tiny", {2, 2}, 15}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           for (const std::int64_t size : info.param.mesh) name += "_" + std::to_string(size);
                           return name;
                         });

// With all blocks, and everything replicated: what is saved between forward and backward is what crosses the blocks' borders.
class RecomputeAll : public testing::TestWithParam<const char*> {};

TEST_P(RecomputeAll, HoldsLessAndTakesAForwardMore) {
  const ModelAnalysis model = make_float64_model(read_model(GetParam()), *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({1});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  const auto of_blocks = [&](std::vector<std::string> blocks) {
    input.recomputed = std::move(blocks);
    const Problem problem = build_problem(input).value();
    const Plan plan = draw_plan(input, problem, 1).value();
    const Program program = host::make_program(plan, bench().tools).value();
    const Timeline times = make_timeline(program, *bench().tools.ops, profile).value();
    return std::tuple(memory_profile(program).peak_bytes, plan.peak_bytes, times.step_seconds, times.forward_seconds);
  };
  const auto [kept_peak, kept_terms, kept_step, kept_forward] = of_blocks({});
  const auto [peak, terms, step, forward] = of_blocks(recomputable_blocks(model));
  EXPECT_LT(peak, kept_peak);
  EXPECT_LE(terms, peak);
  EXPECT_GT(static_cast<double>(terms), 0.75 * static_cast<double>(peak));
  EXPECT_GT(step, kept_step);
  EXPECT_LE(step, kept_step + kept_forward);
  EXPECT_EQ(forward, kept_forward);
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputeAll, testing::Values("gpt2_tiny", "llama_tiny", "bert_tiny", "vit_tiny"), [](const auto& info) { return std::string(info.param); });

// What is kept where the layouts are given: an answer's cost is what the plan takes more, and its peak about what the plan holds.
class Kept : public testing::TestWithParam<RecomputeDraws> {};

TEST_P(Kept, IsPricedAsThePlanIs) {
  const Mesh mesh = plain_mesh(GetParam().mesh);
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const ModelAnalysis model = make_float64_model(read_model(GetParam().model), *bench().tools.ops).value();
  ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
  const auto problem_of = [&](std::vector<std::string> names) {
    input.recomputed = std::move(names);
    return build_problem(input).value();
  };
  const Problem kept = problem_of({}), again = problem_of(recomputable_blocks(model)), operands_again = problem_of(all_operands(model));
  const RecomputePins pins = RecomputePins::make(model, {}).value();
  int selective = 0, converted = 0, tight = 0;
  for (int seed = 0; seed < at_most_draws(GetParam().count); ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> choice = draw_choice(kept, static_cast<std::uint64_t>(seed)).value();
    const Evaluation all = evaluate(kept.space, choice);
    const KeptSpace space(input, {kept, again, operands_again}, pins, choice);
    ASSERT_TRUE(validate(space.space()).ok()) << validate(space.space()).error().message;
    const std::shared_ptr<IntraSolver> solver = bench().host.create<IntraSolver>("intra", "elimination").value();
    for (const double share : {1.0, 0.9, 0.8, 0.7}) {
      SCOPED_TRACE(share);
      const std::int64_t budgets[] = {static_cast<std::int64_t>(share * static_cast<double>(all.peak_bytes))};
      const Reduction reduction = reduce(space.space());
      const Assignment answer = reduction.lift(space.space(), std::move(solver->solve(reduction.space, budgets, {}).value()[0]));
      if (share == 1.0) {
        ASSERT_FALSE(answer.choice.empty());
        EXPECT_TRUE(answer.cost == 0) << "all may be kept";
      }
      if (answer.choice.empty()) break;
      const std::vector<std::string> names = space.recomputed(answer.choice);
      const Evaluation made = evaluate(problem_of(names).space, choice);
      const double more = to_seconds(made.cost - all.cost), said = to_seconds(answer.cost);
      EXPECT_NEAR(more, said, 1e-3 * more);
      EXPECT_NEAR(static_cast<double>(made.peak_bytes), static_cast<double>(answer.peak_bytes), 0.3 * static_cast<double>(answer.peak_bytes)) << "it knows nothing of what runs again together";
      if (share < 1.0) ++tight;
      for (const std::string& name : names) selective += name.find('.') == std::string::npos ? 1 : 0;
      for (const std::string& name : names) converted += name.find(':') != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(tight, 0);
  EXPECT_GT(selective, 0);
  EXPECT_GT(converted, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Kept,
                         testing::Values(RecomputeDraws{"gpt2_deep_tiny", {2, 2}, 10}, RecomputeDraws{"llama_tiny", {2, 2}, 10}, RecomputeDraws{"bert_tiny", {4}, 10}, RecomputeDraws{"vit_tiny", {2, 2}, 10},
                                         RecomputeDraws{"t5_tiny", {2, 2}, 5}),
                         [](const auto& info) { return std::string(info.param.model); });

// What runs again is marked, shows in the profile of memory, and is refused where it would be anything else than in the forward.
TEST(RecomputedProgram, RunsAgainAsItRan) {
  const ModelAnalysis model = make_float64_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({2, 2});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}, recomputable_blocks(model)};
  const Problem problem = build_problem(input).value();
  const Program program = host::make_program(draw_plan(input, problem, 3).value(), bench().tools).value();
  ASSERT_TRUE(validate_finished(program).ok()) << validate_finished(program).error().message;
  const MemoryProfile memory = memory_profile(program);
  std::int64_t most = 0;
  for (const auto& point : memory.curve) most = std::max(most, point.held[MemoryKind::recomputed]);
  EXPECT_GT(most, 0);
  int changed = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& here = program.instructions[i];
    if (!here.again || here.compute() == nullptr) continue;
    Program other = program;
    ASSERT_EQ(here.phase, Phase::backward);
    if (changed % 2 == 0) other.instructions[i].name += " 2";  // other random numbers
    else other.instructions[i].compute()->op += "_";
    const Status refused = validate_finished(other);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("runs again otherwise"), std::string::npos) << refused.error().message;
    ++changed;
  }
  EXPECT_GT(changed, 1);
}

// What is converted again goes where it went in the forward, and comes from there.
TEST(RecomputedProgram, ConvertsAgainAsItConverted) {
  const ModelAnalysis model = make_float64_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  const Mesh mesh = plain_mesh({2, 2});
  const CostProfile profile = plain_profile();
  const TrainingSettings training;
  const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}, all_operands(model)};
  const Problem problem = build_problem(input).value();
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Program program = host::make_program(draw_plan(input, problem, seed).value(), bench().tools).value();
    ASSERT_TRUE(validate_finished(program).ok()) << validate_finished(program).error().message;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& here = program.instructions[i];
      if (!here.again) continue;
      if (here.compute() != nullptr) {
        EXPECT_TRUE(here.is_alias()) << here.name << ": no op runs again but views";
        continue;
      }
      ASSERT_NE(here.move(), nullptr);
      ++moved;
      // Of a copy of the same shape and layout that holds another value.
      for (ProgramValueId other = 0; other < program.values.size(); ++other) {
        const ProgramValueId of = here.operands[0].value;
        if (other == of || !(program.type(other) == program.type(of)) || program.values[other].name.starts_with(program.values[of].name)) continue;
        Program changed = program;
        changed.instructions[i].operands[0].value = other;
        EXPECT_FALSE(validate_finished(changed).ok()) << here.name;
        break;
      }
    }
  }
  EXPECT_GT(moved, 0);
}

TEST(RecomputedOperands, ThatCannotBeConvertedAreNamed) {
  const ModelAnalysis model = analyze_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  const std::set<NodeOperand> could = convertible_operands(model);
  ASSERT_FALSE(could.empty());
  const auto refusal = [&](const std::string& name) {
    const Result<Recomputation> made = recomputation(model, {name});
    return made ? "" : made.error().message;
  };
  for (NodeId id = 0; id < model.graph->nodes.size(); ++id) {
    const Node& node = model.graph->nodes[id];
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      const std::string name = operand_name(*model.graph, {id, port}), said = refusal(name);
      EXPECT_EQ(said.empty(), could.contains({id, port})) << said;
      if (!said.empty()) EXPECT_NE(said.find("'" + name + "' cannot be converted again"), std::string::npos) << said;
      else EXPECT_TRUE(recomputation(model, {name, node.name})->converted_again.empty() || !recomputation(model, {name, node.name})->runs(id)) << "it converts it anyway";
    }
    EXPECT_NE(refusal(node.name + ":99").find(std::to_string(node.operands.size()) + " operands"), std::string::npos);
  }
  const auto& [id, port] = *could.begin();
  EXPECT_NE(refusal("nothing:0").find("no block 'nothing:0'"), std::string::npos);
  EXPECT_NE(refusal(model.graph->nodes[id].name + ":99").find("could be: '" + operand_name(*model.graph, {id, port})), std::string::npos);
  EXPECT_EQ(recomputed_text(model, {operand_name(*model.graph, *could.begin())}), "1 input is converted again for the backward");
}

TEST(RecomputedBlocks, ThatAreUnknownAreNamed) {
  const ModelAnalysis model = analyze_model(read_model("gpt2_tiny"), *bench().tools.ops).value();
  const Result<Recomputation> made = recomputation(model, {"transformer.h.99"});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("'transformer.h.99'"), std::string::npos);
  for (const RecomputableBlock& block : blocks_of(model)) {
    for (const NodeId id : block.nodes) {
      const bool view = model.backward->memory.nodes[id].view;
      EXPECT_EQ(recomputation(model, {model.graph->nodes[id].name}).ok(), !view) << "a view goes with what it shows";
    }
  }
}

}  // namespace
}  // namespace meshwright::test
