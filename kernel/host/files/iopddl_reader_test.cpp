#include "files/iopddl_reader.h"

#include <gtest/gtest.h>

namespace meshwright::host {
namespace {

constexpr const char* kTiny = R"({"problem": {"name": "tiny",
  "nodes": {"intervals": [[0, 3], [2, 2], [1, 4]], "costs": [[1, 2], [3], [4, 1000000000000000000]],
            "usages": [[5, 6], [7], [8, 9]]},
  "edges": {"nodes": [[0, 1], [0, 2], [2, 0]], "costs": [[10, 20], [0, 1, 2, 3], [4, 5, 1e18, 7]]},
  "usage_limit": 14}})";

// The text with the first `old` exchanged.
std::string with(const std::string& old, const std::string& text) {
  std::string result = kTiny;
  const std::size_t at = result.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return result.replace(at, old.size(), text);
}

std::string problem_of(const std::string& text) {
  const Result<IopddlProblem> problem = parse_iopddl(text, "x.json");
  return problem ? "" : problem.error().message;
}

TEST(IopddlReader, ReadsNodesEdgesAndMemory) {
  const Result<IopddlProblem> problem = parse_iopddl(kTiny, "tiny.json");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const StrategySpace& space = problem->space;
  EXPECT_EQ(problem->usage_limit, 14);
  ASSERT_EQ(space.nodes.size(), 3U);
  EXPECT_EQ(space.nodes[2].costs, (std::vector<Ticks>{4, kForbidden}));
  ASSERT_EQ(space.memory.size(), 2U) << "the second node is never live";
  EXPECT_EQ(space.memory[1].bytes, (std::vector<std::int64_t>{8, 9}));
  ASSERT_EQ(space.edges.size(), 3U);
  EXPECT_EQ(space.tables[space.edges[0].table].costs, (std::vector<Ticks>{10, 20}));
  // Parallel edges add, whichever way they run: [0][2] + [2][0] transposed.
  const std::vector<std::uint32_t> choice = {1, 0, 0};
  const Evaluation evaluation = evaluate(space, choice);
  EXPECT_TRUE(evaluation.allowed);
  EXPECT_EQ(static_cast<std::int64_t>(evaluation.cost), 2 + 3 + 4 + 20 + 2 + 5);
  EXPECT_EQ(evaluation.peak_bytes, 14);
  EXPECT_FALSE(evaluate(space, std::vector<std::uint32_t>{0, 0, 1}).allowed);
}

TEST(IopddlReader, AddsAnEdgeToItselfToTheNode) {
  const Result<IopddlProblem> problem = parse_iopddl(with("[[0, 1], [0, 2], [2, 0]]", "[[0, 1], [0, 0], [2, 0]]"), "x");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->space.nodes[0].costs, (std::vector<Ticks>{1, 5}));
  EXPECT_EQ(problem->space.edges.size(), 2U);
}

TEST(IopddlReader, StoresAlikeTablesOnce) {
  const Result<IopddlProblem> problem = parse_iopddl(with("[4, 5, 1e18, 7]", "[0, 1, 2, 3]"), "x");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->space.tables.size(), 2U);
}

TEST(IopddlReader, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "not valid JSON"},
      {"[]", "problem.nodes.intervals is missing"},
      {with("\"usage_limit\": 14", "\"limit\": 14"), "problem.usage_limit is missing"},
      {with("14}}", "-1}}"), "problem.usage_limit: it is negative"},
      {with("14}}", "\"14\"}}"), "a text where whole numbers are wanted"},
      {with("[1, 4]]", "[1, 4, 5]]"), "problem.nodes.intervals[2]: an interval is two numbers"},
      {with("[1, 4]]", "[-1, 4]]"), "problem.nodes.intervals[2]: times must be"},
      {with("[1, 4]]", "[1, 4294967296]]"), "problem.nodes.intervals[2]: times must be"},
      {with("[2, 2], ", ""), "problem.nodes.costs has 3 entries and problem.nodes.intervals has 2"},
      {with("[[1, 2], [3]", "[[], [3]"), "problem.nodes.costs[0]: a node needs at least one cost"},
      {with("[[1, 2], [3]", "[[1, -2], [3]"), "problem.nodes.costs[0]: a cost is negative"},
      {with("[[1, 2], [3]", "[[1, 2.5], [3]"), "problem.nodes.costs[0]: a fraction"},
      {with("[[1, 2], [3]", "[1, [3]"), "problem.nodes.costs[0]: a number where a list"},
      {with("[[1, 2], [3]", "[[[1]], [3]"), "nested three deep"},
      {with("[[1, 2], [3]", "[[1, null], [3]"), "null where whole numbers are wanted"},
      {with("[5, 6]", "[5]"), "problem.nodes.usages[0]: 1 usages for 2 costs"},
      {with("[5, 6]", "[5, -6]"), "problem.nodes.usages[0]: a usage is negative"},
      {with("[[0, 1], ", "[[0, 3], "), "problem.edges.nodes[0]: there is no node 3; nodes are 0 to 2"},
      {with("[[0, 1], ", "[[0], "), "problem.edges.nodes[0]: an edge joins two nodes"},
      {with("[10, 20]", "[10, 20, 30]"), "problem.edges.costs[0]: 3 costs for 2 rows and 1 columns"},
      {with("[10, 20]", "[10, -20]"), "problem.edges.costs[0]: a cost is negative"},
      {with("[5, 6]", "[5, 9223372036854775807]"), "add up to more than 2^62"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string problem = problem_of(text);
    EXPECT_TRUE(problem.starts_with("x.json: ")) << problem;
    EXPECT_NE(problem.find(expected), std::string::npos) << problem << "\nwanted: " << expected;
  }
}

TEST(IopddlReader, RefusesFilesThatAreNone) {
  EXPECT_NE(read_iopddl("/no/such/file.json").error().message.find("can't be opened"), std::string::npos);
  EXPECT_NE(read_iopddl("/tmp").error().message.find("is no regular file"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::host
