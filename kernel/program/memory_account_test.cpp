#include "meshwright/memory_account.h"

#include <gtest/gtest.h>

#include <array>

#include "meshwright/memory_profile.h"

namespace meshwright {
namespace {

// On a mesh of three axes, with these moves.
Program moving(const std::vector<Move>& moves) {
  Program program;
  program.mesh.axes.assign(3, {2, 0, 1e-9, ""});
  for (const Move& move : moves) program.instructions.emplace_back().action = MoveStep{move};
  return program;
}

Move over(MoveKind kind, std::uint8_t axis, AxisSet joined = 0) {
  Move move;
  move.kind = kind;
  move.axis = axis;
  move.joined = joined;
  return move;
}

TEST(Communicators, AreOneForEachProductOfAxes) {
  EXPECT_EQ(communicators(moving({})), 0);
  EXPECT_EQ(communicators(moving(
                {over(MoveKind::all_gather, 0), over(MoveKind::reduce_scatter, 0), over(MoveKind::all_to_all, 0)})),
            1);
  EXPECT_EQ(communicators(moving({over(MoveKind::all_reduce, 0), over(MoveKind::all_reduce, 2)})), 2);
  // Axes 0 and 1 together are another group than each of them, and than all three.
  EXPECT_EQ(communicators(moving({over(MoveKind::all_gather, 0), over(MoveKind::all_gather, 0, 0b010),
                                  over(MoveKind::all_gather, 0, 0b110)})),
            3);
}

TEST(Communicators, AreSharedByProgramsOnOneMesh) {
  const Program one = moving({over(MoveKind::all_gather, 0), over(MoveKind::all_gather, 0, 0b010)}), other = moving({over(MoveKind::all_reduce, 0), over(MoveKind::all_reduce, 2)});
  Program elsewhere = one;
  elsewhere.mesh.axes.front().size = 4;
  EXPECT_EQ(communicators(std::array<const Program*, 2>{&one, &other}), 3);
  EXPECT_EQ(communicators(std::array<const Program*, 2>{&one, &elsewhere}), 4);
}

TEST(Communicators, AreNotNeededForWhatStaysOnTheDevice) {
  EXPECT_EQ(communicators(moving({over(MoveKind::slice, 0), over(MoveKind::keep_one, 1)})), 0);
}

TEST(Communicators, OfWhatIsSentFromOneToAnotherIsThatOfAllDevices) {
  Move sent = over(MoveKind::permute, 0);
  sent.other_axis = 1;
  EXPECT_EQ(communicators(moving({sent, over(MoveKind::all_gather, 0, 0b110)})), 1);
  Move gathered = over(MoveKind::all_gather, 0);
  gathered.permutes_before = true;
  EXPECT_EQ(communicators(moving({gathered})), 2);
}

TEST(MemoryAccount, OfAProgramCountsEachOfThePeaksTensors) {
  MemoryProfile profile;
  profile.peak_tensors = {{"w", MemoryKind::optimizer, {DType::float32, {3}}, 3, 39, ""},
                          {"x", MemoryKind::input, {DType::float32, {5}}, 1, 20, ""}};
  Cluster cluster;
  cluster.device.overheads.block_bytes = 16;
  const MemoryAccount account = memory_account(cluster, moving({over(MoveKind::all_gather, 1)}), profile);
  EXPECT_EQ(account.program_bytes, 59);
  EXPECT_EQ(account.rounding_bytes, 3 * (16 - 13) + (32 - 20));  // three tensors of 13 bytes, one of 20
  EXPECT_EQ(account.communicators, 1);
}

}  // namespace
}  // namespace meshwright
