// The rules of every op family in tree, executed.
#include "conformance.h"

#include <gtest/gtest.h>

#include "altered_ops.h"
#include "case_runner.h"
#include "program_bench.h"

namespace meshwright::test {
namespace {

ConformanceTools tools_with(const OpTable& ops) {
  const host::ProgramTools& tools = bench().tools;
  return {ops, *tools.conversions, {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()}, *bench().reference};
}

class Conformance : public testing::TestWithParam<std::string> {};

TEST_P(Conformance, RulesClaimWhatIsSo) {
  ConformanceOptions options;
  const auto samples = static_cast<std::size_t>(at_most_draws(static_cast<int>(options.samples)));
  options.sample_planes = samples < options.samples;
  options.samples = samples;
  const ConformanceReport report = check_conformance(read_cases(GetParam()), tools_with(*bench().tools.ops), options);
  for (const ConformanceFinding& finding : report.wrong) ADD_FAILURE() << to_string(finding);
  for (const std::string& text : report.not_executed) ADD_FAILURE() << "not executed: " << text;
  for (const std::string& text : report.could_shard) std::cout << "could shard: " << text << "\n";
  EXPECT_GT(report.assignments, report.calls);
  std::cout << report.calls << " calls, " << report.assignments << " assignments\n";
}

INSTANTIATE_TEST_SUITE_P(Families, Conformance, testing::ValuesIn(families_with_cases()),
                         [](const auto& info) { return info.param; });

// A rule that claims too much: layer normalization with its dimension sharded.
TEST(ConformanceFindsWrongRules, ThatShardTooMuch) {
  const AlteredOps altered(*bench().tools.ops, "aten.layer_norm", [](Rule& rule) {
    for (Factor& factor : rule.factors) factor.whole = false;
  });
  ConformanceOptions options;
  options.look_for_more = false;
  const ConformanceReport report = check_conformance({read_cases("norm")[0]}, tools_with(altered), options);
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(to_string(report.wrong[0]).find("axis 0: d2"), std::string::npos) << to_string(report.wrong[0]);
}

TEST(ConformanceFindsWrongRules, ThatClaimToBeLinear) {
  const AlteredOps altered(*bench().tools.ops, "aten.tanh", [](Rule& rule) { rule.linear = {{0}}; });
  std::vector<OpCase> cases = read_cases("pointwise");
  std::erase_if(cases, [](const OpCase& op_case) { return op_case.graph.nodes[0].op != "aten.tanh"; });
  ASSERT_FALSE(cases.empty());
  const ConformanceReport report = check_conformance(cases, tools_with(altered), {.look_for_more = false});
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(report.wrong[0].assignment.find("partial forward"), std::string::npos) << to_string(report.wrong[0]);
}

TEST(ConformanceFindsWrongRules, ThatDoNotSayWhereRanksMeet) {
  const OpCase op_case = read_cases("loss")[0];
  const AlteredOps altered(*bench().tools.ops, op_case.graph.nodes[0].op, [](Rule& rule) { rule.coupled.clear(); });
  const ConformanceReport report = check_conformance({op_case}, tools_with(altered), {.look_for_more = false});
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(report.wrong[0].problem.find("along the axes none, and what it emits sends along 0"), std::string::npos) << report.wrong[0].problem;
}

}  // namespace
}  // namespace meshwright::test
