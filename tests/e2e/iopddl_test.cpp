// `meshwright iopddl` by the contest's interface: a file and seconds in, the assignment on the last line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "files/json.h"
#include "run_program.h"

namespace meshwright::host {
namespace {

using test::Outcome;
using test::run_program;

// The cheap pair (0, 0) is forbidden; (0, 1) holds 80 + 20.
std::string problem(const std::string& limit) {
  return R"({"problem": {"nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 10], [1, 2]], "usages": [[80, 10], [5, 20]]},
             "edges": {"nodes": [[0, 1]], "costs": [[1000000000000000000, 0, 0, 0]]}, "usage_limit": )" + limit + "}}";
}

class Iopddl : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("meshwright_iopddl_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) {
    const std::string path = (folder_ / "problem.json").string();
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path folder_;
};

std::string last_line(const std::string& text) {
  const std::size_t before = text.rfind('\n', text.size() - 2);
  return text.substr(before == std::string::npos ? 0 : before + 1);
}

TEST_F(Iopddl, PrintsTheAssignmentLast) {
  const Outcome roomy = run_program("iopddl " + file(problem("100")) + " 10");
  EXPECT_EQ(roomy.exit_code, 0) << roomy.errors;
  EXPECT_EQ(last_line(roomy.output), "[0, 1]\n");
  EXPECT_NE(roomy.output.find("Status       optimal"), std::string::npos) << roomy.output;
  EXPECT_NE(roomy.output.find("Cost         3\n"), std::string::npos) << roomy.output;
  EXPECT_NE(roomy.output.find("Lower bound  3\n"), std::string::npos) << roomy.output;
  EXPECT_EQ(last_line(run_program("iopddl " + file(problem("99")) + " 10").output), "[1, 0]\n");
}

TEST_F(Iopddl, PrintsJsonBeforeIt) {
  const Outcome outcome = run_program("iopddl " + file(problem("99")) + " 10 --format json");
  const std::size_t end = outcome.output.find('\n');
  const Result<Json> json = parse_json(outcome.output.substr(0, end), "output");
  ASSERT_TRUE(json.ok()) << outcome.output;
  EXPECT_EQ(std::get<std::string>(json->find("status")->value()), "optimal");
  EXPECT_EQ(std::get<std::string>(json->find("cost")->value()), "11");
  EXPECT_EQ(std::get<std::int64_t>(json->find("peak")->value()), 15);
  EXPECT_EQ(outcome.output.substr(end + 1), "[1, 0]\n");
}

TEST_F(Iopddl, SaysWhyNothingFits) {
  const Outcome outcome = run_program("iopddl " + file(problem("14")) + " 10");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.output, "");
  EXPECT_NE(outcome.errors.find("needs at least 15 bytes per device"), std::string::npos) << outcome.errors;
}

TEST_F(Iopddl, BadInputIsTwo) {
  const std::string good = file(problem("100"));
  for (const std::string& arguments : {good + " 0", good + " -1", good + " nan", good, good + " 10 --intra no_such_solver",
                                       std::string("/no/such/file 10"), std::string(SOURCE_FOLDER "/LICENSE 10")}) {
    const Outcome outcome = run_program("iopddl " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_NE(outcome.errors, "") << arguments;
  }
}

TEST_F(Iopddl, OtherSolversAnswerTheSame) {
  for (const char* intra : {"exhaustive", "ilp_lp_solve"}) {
    const Outcome outcome = run_program("iopddl " + file(problem("99")) + " 10 --intra " + intra);
    EXPECT_EQ(last_line(outcome.output), "[1, 0]\n") << intra << outcome.errors;
  }
}

TEST_F(Iopddl, NoNodesAreNoProblem) {
  const Outcome outcome = run_program("iopddl " + file(R"({"problem": {"nodes": {"intervals": [], "costs": [], "usages": []},
    "edges": {"nodes": [], "costs": []}, "usage_limit": 0}})") + " 5");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(last_line(outcome.output), "[]\n");
}

}  // namespace
}  // namespace meshwright::host
