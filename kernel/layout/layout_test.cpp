#include "meshwright/layout.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

Mesh mesh_of(std::vector<std::int64_t> sizes) {
  Mesh mesh;
  for (const std::int64_t size : sizes) mesh.axes.push_back({size, 1e-6, 1e-11, "link"});
  return mesh;
}

// 8 x (12·64) x 1
AtomShape atoms_8_12_64() { return {{8, 12, 64}, {1, 2, 0}, {false, false, false}}; }

TEST(LayoutText, RoundTrips) {
  for (const char* text : {"R[R R]R", "S0[R R]R", "S01[R R]R", "R[S0 S1]R", "S0[R R]R+P1", "R[R R]R+P0+Pmax1"}) {
    Result<Layout> layout = parse_layout(text, atoms_8_12_64(), 2);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_EQ(to_string(*layout, atoms_8_12_64()), text);
  }
  Result<Layout> wide = parse_layout("S0,11R", whole_dimensions({4096, 8}), 12);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(to_string(*wide, whole_dimensions({4096, 8})), "S0,11R");
}

TEST(LayoutText, RefusesWhatIsNoLayout) {
  for (const char* text : {"", "S0", "S0R", "S2[R R]R", "S0[S0 R]R", "S0[R R]", "X[R R]R", "S0[R R]R+P0", "S0[R R]RR"}) {
    EXPECT_FALSE(parse_layout(text, atoms_8_12_64(), 2).ok()) << text;
  }
}

TEST(Layout, CutsAtomsAndCountsLocalElements) {
  const Mesh mesh = mesh_of({2, 4});
  const Layout layout = *parse_layout("S0[S1 R]R", atoms_8_12_64(), 2);
  EXPECT_TRUE(fits(layout, atoms_8_12_64(), mesh));
  EXPECT_EQ(local_shape(layout, atoms_8_12_64(), mesh), (std::vector<std::int64_t>{4, 192, 1}));
  EXPECT_EQ(local_elements(layout, atoms_8_12_64(), mesh), 4 * 192);
  EXPECT_FALSE(fits(*parse_layout("R[S01 R]R", atoms_8_12_64(), 2), atoms_8_12_64(), mesh));  // 12 is not divided by 8
}

TEST(Layout, PadsOnlyWhereItMay) {
  const Mesh mesh = mesh_of({8});
  AtomShape vocabulary = whole_dimensions({50257, 768});
  const Layout layout = *parse_layout("S0R", vocabulary, 1);
  EXPECT_FALSE(fits(layout, vocabulary, mesh));
  vocabulary.paddable[0] = true;
  EXPECT_TRUE(fits(layout, vocabulary, mesh));
  EXPECT_EQ(local_shape(layout, vocabulary, mesh), (std::vector<std::int64_t>{6283, 768}));
  AtomShape tiny = whole_dimensions({9});
  tiny.paddable[0] = true;
  EXPECT_FALSE(fits(*parse_layout("S0", tiny, 1), tiny, mesh));  // the last device would hold nothing
}

TEST(Layout, KnowsTheInnermostAxisOfAnAtom) {
  const AtomShape shape = whole_dimensions({64, 64});
  const Layout layout = *parse_layout("S02S1", shape, 3);
  EXPECT_FALSE(layout.is_innermost(0));
  EXPECT_TRUE(layout.is_innermost(1));
  EXPECT_TRUE(layout.is_innermost(2));
}

}  // namespace
}  // namespace meshwright
