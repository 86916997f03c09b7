#include "nearest_name.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(NearestName, FindsATypo) {
  const std::vector<std::string> known = {"elimination", "exhaustive", "ilp_lp_solve"};
  EXPECT_EQ(nearest_name("elimnation", known), "elimination");
  EXPECT_EQ(nearest_name("exaustive", known), "exhaustive");
  EXPECT_EQ(nearest_name("eliimnatoin", known), "elimination") << "two swaps of neighbours";
  EXPECT_EQ(nearest_name("simplex", known), "");
}

TEST(NearestName, TakesTheFirstAmongEquals) {
  EXPECT_EQ(nearest_name("bat", std::vector<std::string>{"cat", "hat"}), "cat");
}

TEST(NearestName, SuggestsAWordAList_OrSaysThatThereIsNone) {
  EXPECT_EQ(suggest("intr", {"intra", "mesh"}), "; did you mean \"intra\"?");
  EXPECT_EQ(suggest("zzzzzz", {"intra", "mesh"}), "; known are \"intra\", \"mesh\"");
  EXPECT_EQ(suggest("intra", {}), "; there are none");
}

}  // namespace
}  // namespace meshwright
