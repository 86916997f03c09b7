// Shardings and what runs again as one search problem: any layouts with anything run again cost in it what they cost in the problem in which that runs again, hold no more
// than their program does, and take no longer on an average of paths; and its least is that of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <set>

#include "drawn_plan.h"
#include "joint_space.h"
#include "meshwright/memory_profile.h"
#include "meshwright/recompute.h"
#include "meshwright/reduce.h"
#include "meshwright/saved.h"
#include "meshwright/solver.h"
#include "meshwright/step_parts.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

struct JointDraws {
  const char* model;
  std::vector<std::int64_t> mesh;
  bool chooses = true;  // What runs again is the least where a budget binds.
  int exact = 12;       // draws of 12 that cost what they cost there to the tick
  std::int64_t microbatches = 1;
  const char* order = "";
};

void PrintTo(const JointDraws& draws, std::ostream* out) { *out << draws.model << " on " << to_string(plain_mesh(draws.mesh)) << " " << draws.order; }

class Joint : public testing::TestWithParam<JointDraws> {
 protected:
  Joint()
      : mesh_(plain_mesh(GetParam().mesh)),
        training_(settings()),
        model_(make_float64_model(read_model(GetParam().model), *bench().tools.ops).value()),
        pins_(RecomputePins::make(model_, {}).value()),
        input_{{model_, training_, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh_, {}},
        kept_(problem_of({})),
        again_(problem_of(recomputable_blocks(model_))),
        converted_(problem_of(names_of(std::vector<bool>(model_.graph->nodes.size(), false), convertible_operands(model_)))),
        joint_(input_, {kept_, again_, &converted_}, pins_),
        space_(joint_.space()) {}

  static TrainingSettings settings() {
    TrainingSettings training;
    training.microbatches = GetParam().microbatches;
    if (*GetParam().order != '\0') training.order = GetParam().order;
    return training;
  }

  [[nodiscard]] Problem problem_of(std::vector<std::string> names) const { return build_problem(input_of(std::move(names))).value(); }

  [[nodiscard]] ProblemInput input_of(std::vector<std::string> names) const {
    ProblemInput given = input_;
    given.recomputed = std::move(names);
    return given;
  }

  [[nodiscard]] std::vector<std::string> names_of(const std::vector<bool>& ops, const std::set<NodeOperand>& operands) const { return recomputed_names(model_, ops, operands); }

  struct Drawn {
    std::vector<std::string> ops, all;  // names of what runs again, and with those of what is converted again
  };

  // What runs of some ops that were drawn, and all operands that could be converted again of some storages that were.
  Drawn draw_names() {
    std::vector<bool> ops(model_.graph->nodes.size(), false);
    const std::uint64_t share = 1 + random_() % 4;
    for (std::size_t id = 0; id < ops.size(); ++id) ops[id] = random_() % 5 < share;
    const Recomputation drawn = recomputation(model_, names_of(ops, {})).value();
    const std::vector<ValueId> owners = storages(*model_.graph, *bench().tools.ops);
    std::vector<bool> converted(owners.size(), false);
    for (std::size_t value = 0; value < converted.size(); ++value) converted[value] = random_() % 5 < share;
    std::set<NodeOperand> operands;
    for (const NodeOperand& operand : convertible_operands(model_)) {
      const ValueId value = model_.graph->nodes[operand.first].operands[operand.second].value;
      if (converted[owners[value]] && !drawn.runs(operand.first) && !drawn.makes(value)) operands.insert(operand);
    }
    return {names_of(drawn.runs_again, {}), names_of(drawn.runs_again, operands)};
  }

  static std::shared_ptr<IntraSolver> solver() { return bench().host.create<IntraSolver>("intra", "elimination").value(); }

  static Assignment least(const StrategySpace& space, std::int64_t budget) {
    const Reduction reduction = reduce(space);
    const std::int64_t budgets[] = {budget};
    return reduction.lift(space, std::move(solver()->solve(reduction.space, budgets, {}).value()[0]));
  }

  const Mesh mesh_;
  const CostProfile profile_ = plain_profile();
  const TrainingSettings training_;
  const ModelAnalysis model_;
  const RecomputePins pins_;
  const ProblemInput input_;
  const Problem kept_, again_, converted_;
  const JointSpace joint_;
  const StrategySpace space_;
  std::mt19937_64 random_{7};
};

TEST_P(Joint, SaysWhatTheProblemSaysInWhichThatRunsAgain) {
  ASSERT_TRUE(validate(space_).ok()) << validate(space_).error().message;
  const StepParts kept_parts(input_, kept_);
  const ProblemInput all = input_of(recomputable_blocks(model_));
  const StepParts again_parts(all, again_, StepParts::Again::from_there_on);
  const StepPlaces places = kept_parts.places();
  int ran_again = 0, converted = 0, exact = 0;
  for (int seed = 0; seed < at_most_draws(12); ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> layouts = draw_choice(kept_, static_cast<std::uint64_t>(seed)).value();
    const Drawn drawn = draw_names();
    const auto answer = joint_.answer(layouts, recomputation(model_, drawn.all).value());
    ASSERT_TRUE(answer);
    EXPECT_EQ(joint_.layouts(*answer), layouts);
    // Without what would hold no less, converted again.
    const std::vector<std::string> names = joint_.recomputed(*answer);
    EXPECT_THAT(drawn.all, testing::IsSupersetOf(names));
    EXPECT_THAT(names, testing::IsSupersetOf(drawn.ops));
    const bool converts = names.size() > drawn.ops.size();
    const ProblemInput given = input_of(names);
    const Problem problem = build_problem(given).value();
    EXPECT_EQ(joint_.answer(layouts, problem.recomputation), answer);
    ran_again += names.empty() ? 0 : 1;
    converted += converts ? 1 : 0;
    const Evaluation said = evaluate(space_, *answer), real = evaluate(problem.space, layouts);
    EXPECT_EQ(said.allowed, real.allowed);
    // A view is converted once more only if somebody asks for what it shows, which a space of pairs can't know.
    EXPECT_TRUE(said.cost <= real.cost) << to_seconds(said.cost) << " for " << to_seconds(real.cost);
    EXPECT_GE(to_seconds(said.cost), 0.97 * to_seconds(real.cost));
    exact += said.cost == real.cost ? 1 : 0;
    Assignment assignment;
    assignment.choice = layouts;
    const Program program = host::make_program(make_plan(given, problem, assignment).value(), bench().tools).value();
    const std::int64_t peak = memory_profile(program).peak_bytes;
    EXPECT_LE(said.peak_bytes, peak) << real.peak_bytes;
    EXPECT_GE(static_cast<double>(said.peak_bytes), 0.6 * static_cast<double>(peak));
    // On a path of the plan's own, and on that of what it was drawn beside.
    const StepParts parts(given, problem);
    const PathTable table = parts.of(layouts), path = longest_path(places, table);
    const StrategySpace priced = joint_.priced(kept_parts.space(path), again_parts.space(path));
    if (!converts) {
      EXPECT_LE(static_cast<double>(evaluate(priced, *answer).cost) + kept_parts.fixed_ticks(path), length(table, path) + 1);
    }
    EXPECT_EQ(again_parts.of(layouts, joint_.again(*answer)).size(), table.size());
  }
  EXPECT_GT(ran_again, 0);
  EXPECT_GT(converted, 0);
  EXPECT_GE(exact, std::min(GetParam().exact, at_most_draws(GetParam().exact)));
}

// No layouts are better with nothing or with everything run again than the least of all.
TEST_P(Joint, LeastIsThatOfAll) {
  const Assignment fastest = least(kept_.space, kNoBudget), joint_fastest = least(space_, kNoBudget);
  ASSERT_FALSE(joint_fastest.choice.empty());
  EXPECT_TRUE(joint_fastest.cost == fastest.cost);
  EXPECT_TRUE(joint_.recomputed(joint_fastest.choice).empty());
  const std::int64_t most = evaluate(kept_.space, fastest.choice).peak_bytes;
  int tight = 0;
  for (const double share : {0.9, 0.75, 0.6}) {
    SCOPED_TRACE(share);
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(most));
    const Assignment best = least(space_, budget);
    const Assignment none = least(kept_.space, budget), all = least(again_.space, budget);
    for (const Assignment* other : {&none, &all}) {
      EXPECT_TRUE(other->choice.empty() || best.lower_bound <= other->cost) << to_seconds(best.lower_bound) << " for " << to_seconds(other->cost);
      EXPECT_TRUE(other->choice.empty() || best.status != SolveStatus::infeasible);
    }
    if (best.choice.empty()) continue;
    const std::vector<std::uint32_t> layouts = joint_.layouts(best.choice);
    const std::vector<std::string> names = joint_.recomputed(best.choice);
    EXPECT_TRUE(evaluate(problem_of(names).space, layouts).cost >= best.cost);
    if (!names.empty()) ++tight;
  }
  EXPECT_EQ(tight > 0, GetParam().chooses);
}

// Where nothing runs again and layouts are given, what fits is what is converted again.
TEST_P(Joint, ConvertsAgainWhatDoesNotFitElse) {
  const Recomputation all = recomputation(model_, names_of(std::vector<bool>(model_.graph->nodes.size(), false), convertible_operands(model_))).value();
  int fitted = 0;
  for (int seed = 0; seed < at_most_draws(12); ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> layouts = draw_choice(kept_, static_cast<std::uint64_t>(seed)).value();
    const auto plain = joint_.answer(layouts, recomputation(model_, {}).value()), converted = joint_.answer(layouts, all);
    ASSERT_TRUE(plain && converted);
    const Evaluation most = evaluate(space_, *plain), least_bytes = evaluate(space_, *converted);
    if (least_bytes.peak_bytes >= most.peak_bytes) continue;
    StrategySpace given = space_;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      for (std::size_t value = 0; value < given.nodes[i].costs.size(); ++value) {
        if (value != (*plain)[i] && value != (*converted)[i]) given.nodes[i].costs[value] = kForbidden;
      }
    }
    const Assignment best = least(given, most.peak_bytes - 1);
    ASSERT_FALSE(best.choice.empty());
    EXPECT_LT(evaluate(given, best.choice).peak_bytes, most.peak_bytes);
    EXPECT_TRUE(best.cost >= most.cost && best.cost <= least_bytes.cost);
    EXPECT_THAT(joint_.recomputed(best.choice), testing::Contains(testing::HasSubstr(":")));
    ++fitted;
  }
  EXPECT_GT(fitted, 0);
}

// What layouts cost at least, whatever runs again, so that those that cost more than a plan that is known can be left out.
TEST_P(Joint, ForbidsNothingThatTheLeastHas) {
  const LeastCosts costs = solver()->least_costs(joint_.least(kept_.space, again_.space), {}).value();
  ASSERT_EQ(costs.size(), kept_.variables.size());
  for (int seed = 0; seed < at_most_draws(12); ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::uint32_t> layouts = draw_choice(kept_, static_cast<std::uint64_t>(seed)).value();
    const auto answer = joint_.answer(layouts, recomputation(model_, draw_names().ops).value());
    ASSERT_TRUE(answer);
    const Evaluation here = evaluate(space_, *answer);
    if (!here.allowed) continue;
    for (std::size_t i = 0; i < layouts.size(); ++i) EXPECT_TRUE(here.cost >= costs[i][layouts[i]]) << i;
  }
  const std::int64_t most = evaluate(kept_.space, least(kept_.space, kNoBudget).choice).peak_bytes;
  for (const double share : {0.9, 0.75}) {
    SCOPED_TRACE(share);
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(most));
    const Assignment none = least(kept_.space, budget), best = least(space_, budget);
    if (none.choice.empty()) continue;
    StrategySpace left = space_;
    joint_.forbid_above(none.cost, costs, left);
    const auto forbidden = [](const StrategySpace& space) {
      std::int64_t count = 0;
      for (const SpaceNode& node : space.nodes) count += std::ranges::count(node.costs, kForbidden);
      return count;
    };
    EXPECT_GT(forbidden(left), forbidden(space_));
    EXPECT_TRUE(least(left, budget).cost == best.cost);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Joint,
                         testing::Values(JointDraws{"gpt2_deep_tiny", {2, 2}, false}, JointDraws{"llama_tiny", {2, 2}, true, 6}, JointDraws{"bert_tiny", {4}}, JointDraws{"vit_tiny", {2, 2}, false},
                                         JointDraws{"t5_tiny", {2, 2}}, JointDraws{"resnet_tiny", {4}}, JointDraws{"gpt2_tiny", {2, 2}, true, 12, 3, "F0 F1 B0 F2 B1 B2"}),
                         [](const auto& info) { return std::string(info.param.model) + (info.param.microbatches > 1 ? "_in_flight" : ""); });

}  // namespace
}  // namespace meshwright::test
