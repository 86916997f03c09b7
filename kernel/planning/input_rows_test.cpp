#include "input_rows.h"

#include <gtest/gtest.h>

#include "meshwright/cost.h"

namespace meshwright {
namespace {

// A program with inputs of these shapes, each cut over the axes with a number: the dimension.
class InputRowsTest : public testing::Test {
 protected:
  InputRowsTest() {
    MeshAxis axis;
    axis.alpha_seconds = 1e-5;
    axis.beta_seconds_per_byte = 1e-9;
    for (const std::int64_t size : {4, 2}) {
      axis.size = size;
      program_.mesh.axes.push_back(axis);
    }
  }

  void add_input(ValueId source, std::vector<std::int64_t> shape, std::vector<int> cuts) {
    ShardedType type{{DType::int64, shape}, whole_dimensions(shape), Layout(2)};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      if (cuts[axis] >= 0) type.layout.place(axis, Placement::shard(type.atoms.first_atom(static_cast<std::size_t>(cuts[axis]))));
    }
    program_.inputs.push_back({SourceKind::user_input, source, static_cast<ProgramValueId>(program_.values.size())});
    program_.values.push_back({"input", std::move(type)});
  }

  Program program_;
};

TEST_F(InputRowsTest, InputsThatAreCutAlikeWaitForNothing) {
  add_input(0, {16, 128}, {0, -1});
  add_input(1, {16}, {0, -1});
  const InputRows rows = input_rows(program_);
  EXPECT_EQ(rows.axes, 0b01U);
  EXPECT_EQ(rows.gather_seconds, 0);
}

TEST_F(InputRowsTest, LabelsThatAreWantedWholeAreGathered) {
  add_input(0, {16, 128}, {0, -1});
  add_input(1, {16}, {-1, -1});
  EXPECT_DOUBLE_EQ(input_rows(program_).gather_seconds, collective_seconds(CollectiveKind::all_gather, program_.mesh.axes[0], 16 * 8 / 4));
}

TEST_F(InputRowsTest, AnInputIsCutWhereAllOfItsUsesAre) {
  add_input(0, {16, 128}, {0, 0});
  add_input(0, {16, 128}, {0, 1});
  const InputRows rows = input_rows(program_);
  EXPECT_EQ(rows.axes, 0b01U);
  EXPECT_EQ(rows.gather_seconds, 0);
}

TEST_F(InputRowsTest, WhatHasNoBatchHasNoRows) {
  add_input(0, {16, 128}, {0, -1});
  add_input(1, {128}, {-1, -1});
  EXPECT_EQ(input_rows(program_).gather_seconds, 0);
}

TEST_F(InputRowsTest, WithoutACutBatchEveryRankHasAll) {
  add_input(0, {16, 128}, {1, -1});
  EXPECT_EQ(input_rows(program_).axes, 0U);
}

}  // namespace
}  // namespace meshwright
