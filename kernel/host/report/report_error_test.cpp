#include "report/report_error.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshwright::host {
namespace {

TEST(ReportError, ShowsWhatAPersonWroteAsItIs) {
  EXPECT_EQ(shown_message(bad_input("model.pt2: node 'a': no such op\n  did you mean 'b'?")),
            "model.pt2: node 'a': no such op\n  did you mean 'b'?");
}

TEST(ReportError, NamesFromFilesMoveNoCursor) {
  EXPECT_EQ(shown_message(bad_input("node 'a\x1b[2J\rb'")), "node 'a\\x1b[2J\\x0db'");
}

TEST(ReportError, LongNamesAreCutInTheMiddle) {
  const std::string shown = shown_message(bad_input("node '" + std::string(100'000, 'x') + "' has no result"));
  EXPECT_LT(shown.size(), 1000U);
  EXPECT_TRUE(shown.starts_with("node 'xxx"));
  EXPECT_TRUE(shown.ends_with("x' has no result"));
}

TEST(ReportError, HasAtMostSixLines) {
  std::string message = "first";
  for (int i = 0; i < 20; ++i) message += "\nmore";
  const std::string shown = shown_message(bad_input(message));
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 5);
  EXPECT_TRUE(shown.ends_with("\n  ..."));
}

TEST(ReportError, ARefusalKeepsItsMeshes) {
  std::string message = "no plan fits";
  for (int i = 0; i < 20; ++i) message += "\n  mesh";
  EXPECT_EQ(shown_message(infeasible(message)), message);
}

}  // namespace
}  // namespace meshwright::host
