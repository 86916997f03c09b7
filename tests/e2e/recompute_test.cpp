// [search] recompute: which blocks run again is chosen where memory binds, and the plans compute what one device does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "folder_test.h"
#include "meshwright/recompute.h"
#include "planned_program.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::PlanOptions;
using host::PlanOutcome;
using test::run_program;
using testing::HasSubstr;
using testing::IsEmpty;

struct PlannedRecompute {
  const char* model;
  const char* mesh;
};
void PrintTo(const PlannedRecompute& planned, std::ostream* out) { *out << planned.model << " on " << planned.mesh; }

class RecomputeSearch : public testing::TestWithParam<PlannedRecompute> {
 protected:
  static Result<PlanOutcome> plan(const std::string& recompute, std::int64_t budget, int rounds) {
    PlanOptions options;
    options.model = test::tiny(GetParam().model);
    options.cluster = test::cluster_of(GetParam().mesh);
    options.mesh = GetParam().mesh;
    options.set = {"search.recompute=" + recompute, "search.step_rounds=" + std::to_string(rounds)};
    if (budget > 0) options.memory_budget = std::to_string(budget);
    return test::plan(options);
  }
  int of_ops_ = 0;
};

TEST_P(RecomputeSearch, RunsBlocksAgainOnlyWhereThatHelps) {
  const Result<PlanOutcome> roomy = plan("blocks", 0, 0), all = plan("all", 0, 0);
  ASSERT_TRUE(roomy && roomy->plan && all && all->plan);
  EXPECT_THAT(roomy->plan->recomputed, IsEmpty()) << "no budget binds";
  EXPECT_EQ(all->plan->recomputed, recomputable_blocks(all->plan->model));
  EXPECT_LT(all->plan->peak_bytes, roomy->plan->peak_bytes);
  int chosen = 0;
  for (const double share : {0.8, 0.6}) {
    SCOPED_TRACE(share);
    const auto budget = static_cast<std::int64_t>(share * static_cast<double>(roomy->plan->peak_bytes));
    const Result<PlanOutcome> without = plan("none", budget, 0);
    Result<PlanOutcome> with = plan("blocks", budget, 0);
    ASSERT_TRUE(without && with);
    if (!with->plan) {
      EXPECT_FALSE(without->plan) << "blocks may also be kept";
      continue;
    }
    EXPECT_LE(with->plan->peak_bytes, budget);
    Result<PlanOutcome> free = plan("free", budget, 0);
    ASSERT_TRUE(free && free->plan);
    EXPECT_LE(free->plan->peak_bytes, budget);
    // Fewer numbers of blocks are tried, so one that is a little better may be missed.
    EXPECT_LE(free->plan->step_seconds, 1.02 * with->plan->step_seconds);
    for (const std::string& name : free->plan->recomputed) of_ops_ += name.find('.') == std::string::npos ? 1 : 0;
    Result<test::PlannedProgram> selective = test::program_of(std::move(*free->plan));
    ASSERT_TRUE(selective) << selective.error().message;
    test::expect_verifies(*selective, 3);
    EXPECT_LE(with->plan->lower_bound_seconds, with->plan->objective_seconds);
    if (without->plan) {
      EXPECT_LE(with->plan->step_seconds, without->plan->step_seconds);
      // What costs the least without a block costs no less than the bound for any number of them.
      EXPECT_LE(with->plan->lower_bound_seconds, without->plan->objective_seconds);
    }
    if (with->plan->recomputed.empty()) continue;
    ++chosen;
    EXPECT_THAT(with->plan->notes, testing::Contains(HasSubstr("runs again for the backward")));
    Result<test::PlannedProgram> planned = test::program_of(std::move(*with->plan));
    ASSERT_TRUE(planned) << planned.error().message;
    test::expect_verifies(*planned, 3);
  }
  EXPECT_GE(chosen, 1);
  EXPECT_TRUE(of_ops_ >= 1 || std::string(GetParam().model) == "vit_tiny");
}

INSTANTIATE_TEST_SUITE_P(, RecomputeSearch, testing::Values(PlannedRecompute{"gpt2_deep_tiny", "4"}, PlannedRecompute{"gpt2_deep_tiny", "2x2"}, PlannedRecompute{"vit_tiny", "2x2"}));

class RecomputedPlan : public test::FolderTest {
 protected:
  // A plan of gpt2_deep_tiny on four devices, by this configuration.
  Result<PlanOutcome> plan_with(const std::string& config, std::vector<std::string> set = {}, std::int64_t budget = 0) {
    PlanOptions options;
    options.model = test::tiny("gpt2_deep_tiny");
    options.cluster = test::cluster_of("4");
    options.mesh = "4";
    write("pins.toml", config);
    options.config = path("pins.toml");
    options.set = std::move(set);
    options.set.emplace_back("search.step_rounds=0");
    if (budget > 0) options.memory_budget = std::to_string(budget);
    return test::plan(options);
  }
};

TEST_F(RecomputedPlan, FollowsPins) {
  const Result<PlanOutcome> roomy = plan_with("");
  ASSERT_TRUE(roomy && roomy->plan);
  const std::vector<std::string> blocks = recomputable_blocks(roomy->plan->model);
  ASSERT_GE(blocks.size(), 2U);
  const std::string first = "\"" + blocks[0] + "\" = ", second = "\"" + blocks[1] + "\" = ";
  // One that runs again in any case; none of it where nothing else does.
  Result<PlanOutcome> pinned = plan_with("[pins]\n" + second + "\"recompute\"\n");
  ASSERT_TRUE(pinned && pinned->plan);
  EXPECT_EQ(pinned->plan->recomputed, std::vector<std::string>{blocks[1]});
  // One that is kept while all others run again.
  pinned = plan_with("[pins]\n" + first + "\"keep\"\n", {"search.recompute=all"});
  ASSERT_TRUE(pinned && pinned->plan);
  EXPECT_EQ(pinned->plan->recomputed, std::vector<std::string>(blocks.begin() + 1, blocks.end()));
  for (const char* recompute : {"blocks", "free"}) {
    SCOPED_TRACE(recompute);
    pinned = plan_with("[pins]\n" + first + "\"keep\"\n" + second + "\"recompute\"\n", {std::string("search.recompute=") + recompute}, roomy->plan->peak_bytes * 8 / 10);
    ASSERT_TRUE(pinned && pinned->plan);
    const Recomputation made = recomputation(pinned->plan->model, pinned->plan->recomputed).value(), alone = recomputation(pinned->plan->model, {blocks[1]}).value();
    for (const RecomputableBlock& block : blocks_of(pinned->plan->model)) {
      for (const NodeId id : block.nodes) {
        EXPECT_FALSE(block.name == blocks[0] && made.runs(id));
        EXPECT_TRUE(block.name != blocks[1] || made.runs(id) == alone.runs(id));
      }
    }
  }
}

// Operands that are converted again are pinned by their names: with others, or alone.
TEST_F(RecomputedPlan, FollowsPinsOfOperands) {
  const Result<PlanOutcome> roomy = plan_with("");
  ASSERT_TRUE(roomy && roomy->plan);
  const ModelAnalysis& model = roomy->plan->model;
  std::vector<std::string> names;
  for (const NodeOperand& operand : convertible_operands(model)) names.push_back(operand_name(*model.graph, operand));
  ASSERT_GE(names.size(), 2U);
  const std::string first = "[pins]\n\"" + names[0] + "\" = ", second = "\"" + names[1] + "\" = ";
  Result<PlanOutcome> pinned = plan_with(first + "\"recompute\"\n");
  ASSERT_TRUE(pinned && pinned->plan) << pinned.error().message;
  EXPECT_EQ(pinned->plan->recomputed, std::vector<std::string>{names[0]});
  pinned = plan_with(first + "\"keep\"\n" + second + "\"recompute\"\n", {"search.recompute=free"}, roomy->plan->peak_bytes * 8 / 10);
  ASSERT_TRUE(pinned && pinned->plan);
  EXPECT_THAT(pinned->plan->recomputed, testing::AllOf(testing::Contains(names[1]), testing::Not(testing::Contains(names[0]))));
  const Result<PlanOutcome> both = plan_with(first + "\"recompute\"\n\"" + names[0].substr(0, names[0].find(':')) + ":0" + names[0].substr(names[0].find(':') + 1) + "\" = \"keep\"\n");
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, testing::AllOf(HasSubstr("contradicts another pin"), HasSubstr(names[0])));
  const Result<PlanOutcome> none = plan_with("[pins]\n\"" + names[0] + "9\" = \"recompute\"\n");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, testing::AllOf(HasSubstr("pins.toml:2"), HasSubstr("operands, counted from 0"), HasSubstr("could be: '" + names[0] + "'")));
}

TEST_F(RecomputedPlan, RefusesPinsThatNameNothingOrContradict) {
  const Result<PlanOutcome> unknown = plan_with("[pins]\n\"h.99\" = \"keep\"\n");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, testing::AllOf(HasSubstr("pins.toml:2"), HasSubstr("'h.99'")));
  const Result<PlanOutcome> roomy = plan_with("");
  ASSERT_TRUE(roomy && roomy->plan);
  const RecomputableBlock block = blocks_of(roomy->plan->model).front();
  std::string op;
  for (const NodeId id : block.nodes) {
    if (!roomy->plan->model.backward->memory.nodes[id].view) op = roomy->plan->model.graph->nodes[id].name;
  }
  const Result<PlanOutcome> both = plan_with("[pins]\n\"" + block.name + "\" = \"keep\"\n" + op + " = \"recompute\"\n");
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error().message, testing::AllOf(HasSubstr("contradicts another pin"), HasSubstr(op)));
}

// What a refusal names can be asked for as it is written, and what it says to be proven is refused.
class RefusedBudget : public testing::TestWithParam<const char*> {};

TEST_P(RefusedBudget, NamesOneThatHasAPlan) {
  PlanOptions options;
  options.model = test::tiny("gpt2_deep_tiny");
  options.cluster = test::cluster_of("2x2");
  options.mesh = "2x2";
  options.set = {std::string("search.recompute=") + GetParam(), "search.step_rounds=0"};
  options.memory_budget = "1KiB";
  const Result<PlanOutcome> refused = test::plan(options);
  ASSERT_TRUE(refused && !refused->plan);
  const std::string said = "the smallest budget for which a plan is known is ";
  const std::size_t begin = refused->refusal.find(said), end = refused->refusal.find(',', begin);
  ASSERT_NE(begin, std::string::npos) << refused->refusal;
  options.memory_budget = refused->refusal.substr(begin + said.size(), end - begin - said.size());
  std::erase(options.memory_budget, ' ');
  const Result<PlanOutcome> named = test::plan(options);
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_TRUE(named->plan) << options.memory_budget << ": " << named->refusal;
  const std::int64_t proven = refused->trials[0].least_bytes;
  EXPECT_THAT(refused->refusal, HasSubstr(proven > 0 ? "there is none" : "is not proven"));
  if (proven == 0) return;
  options.memory_budget = std::to_string(proven - 1);
  const Result<PlanOutcome> below = test::plan(options);
  ASSERT_TRUE(below && !below->plan);
  EXPECT_THAT(below->refusal, HasSubstr("needs at least"));
}

INSTANTIATE_TEST_SUITE_P(, RefusedBudget, testing::Values("none", "blocks", "free"), [](const auto& info) { return std::string(info.param); });

// What several linears take of a sequence-sharded norm is gathered again where that is cheaper than to run the norm again.
// Here on devices that compute slowly.
TEST_F(RecomputedPlan, ConvertsInputsAgainWhereThatIsCheaper) {
  write("slow.toml", "name = \"slow4\"\nnodes = 1\ndevices_per_node = 4\ndevice = \"" TEST_FOLDER "/slow_device.toml\"\nreserved_bytes = \"0GiB\"\n"
                     "[[level]]\nname = \"pair\"\ngroup = 2\nbandwidth = \"2GB/s\"\nlatency = \"1us\"\n"
                     "[[level]]\nname = \"all\"\ngroup = 4\nbandwidth = \"1GB/s\"\nlatency = \"1us\"\n");
  PlanOptions options;
  options.model = test::tiny("llama_tiny");
  options.cluster = path("slow.toml");
  options.mesh = "2x2";
  const auto plan = [&](const std::string& recompute, std::int64_t budget) {
    options.set = {"search.recompute=" + recompute, "search.step_rounds=0"};
    options.memory_budget = budget > 0 ? std::to_string(budget) : "";
    return test::plan(options);
  };
  const Result<PlanOutcome> none = plan("none", 0), all = plan("all", 0);
  ASSERT_TRUE(none && none->plan && all && all->plan);
  int converted = 0;
  for (const double share : {0.0, 0.1}) {
    SCOPED_TRACE(share);
    const auto room = static_cast<double>(none->plan->peak_bytes - all->plan->peak_bytes);
    const std::int64_t budget = all->plan->peak_bytes + static_cast<std::int64_t>(share * room);
    Result<PlanOutcome> free = plan("free", budget);
    ASSERT_TRUE(free && free->plan);
    EXPECT_LE(free->plan->peak_bytes, budget);
    const auto names_operand = [](const std::string& name) { return name.find(':') != std::string::npos; };
    if (std::ranges::none_of(free->plan->recomputed, names_operand)) continue;
    ++converted;
    EXPECT_THAT(free->plan->notes, testing::Contains(HasSubstr("converted again")));
    Result<test::PlannedProgram> planned = test::program_of(std::move(*free->plan));
    ASSERT_TRUE(planned) << planned.error().message;
    test::expect_verifies(*planned, 3);
  }
  EXPECT_GT(converted, 0);
}

// A step that has a bound, in rounds; its file is read again, and both reports name the blocks.
TEST_F(RecomputedPlan, IsSaidAndReadAgain) {
  const std::string file = path("plan.json");
  const auto planned = run_program("plan " + test::tiny("gpt2_deep_tiny") + " --cluster " + test::cluster_of("4") + " --mesh 4 --set search.recompute=all -o " + file);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  const auto verified = run_program("verify " + file);
  EXPECT_EQ(verified.exit_code, 0) << verified.output << verified.errors;
  const auto explained = run_program("explain " + file);
  EXPECT_EQ(explained.exit_code, 0) << explained.errors;
  EXPECT_THAT(explained.output, HasSubstr("blocks runs again for the backward."));
}

TEST_F(RecomputedPlan, HasAStepNoLessThanItsBound) {
  PlanOptions options;
  options.model = test::tiny("gpt2_deep_tiny");
  options.cluster = test::cluster_of("4");
  options.mesh = "4";
  const Result<PlanOutcome> roomy = test::plan(options);
  options.set = {"search.step_rounds=0"};
  const Result<PlanOutcome> by_objective = test::plan(options);
  ASSERT_TRUE(roomy && roomy->plan && by_objective && by_objective->plan);
  options.set = {"search.recompute=blocks"};
  options.memory_budget = std::to_string(by_objective->plan->peak_bytes * 6 / 10);
  const Result<PlanOutcome> tight = test::plan(options);
  ASSERT_TRUE(tight && tight->plan);
  EXPECT_FALSE(tight->plan->recomputed.empty());
  EXPECT_GT(tight->plan->step_lower_bound_seconds, 0);
  EXPECT_LE(tight->plan->step_lower_bound_seconds, tight->plan->step_seconds);
  // The bound is that of plans that may also keep all, so the fastest of those is no shorter.
  EXPECT_LE(tight->plan->step_lower_bound_seconds, roomy->plan->step_seconds);
}

}  // namespace
}  // namespace meshwright
