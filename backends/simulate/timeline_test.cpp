#include "timeline_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "test_ops.h"

namespace meshwright {
namespace {

using testing::count_up;
using testing::ProgramBuilder;

const testing::TestOps kOps;

// x → first → second, which needs w, gathered one op ahead; its gradient is reduced beside third. If there is room, first reads
// more, so that the peak is there, and what the reduction reads fits below it until it has been reduced; else third waits for its place.
ProgramBuilder layer(bool beside, bool room = true) {
  ProgramBuilder build = testing::slow_builder({2});
  build.program.training.optimizer = Optimizer::sgd;
  const ProgramValueId weight = build.parameter("w", count_up({4}), "S0"), x = build.input("x", count_up({4}), "R");
  const ProgramValueId gathered = build.move(MoveKind::all_gather, 0, weight, "R");
  std::vector<ProgramValueId> read = {x};
  if (room) read.push_back(build.input("more", count_up({64}), "R"));
  const ProgramValueId first = build.compute("first", read, "R");
  const ProgramValueId second = build.compute("second", {first, gathered}, "R+P0");
  const ProgramValueId reduced = build.move(MoveKind::reduce_scatter, 0, second, "S0");
  for (Instruction& instruction : build.program.instructions) {
    if (beside && instruction.kind() == InstructionKind::move) instruction.stream = Stream::communication;
  }
  build.output(build.compute("third", {first}, "R"));
  build.update(0, reduced);
  place_frees(build.program);
  return build;
}

std::vector<double> starts(const Program& program, const Timeline& timeline) {
  std::vector<double> starts;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    if (program.instructions[i].kind() != InstructionKind::free) starts.push_back(timeline.spans[i].start_seconds());
  }
  return starts;
}

TEST(Timeline, ParametersMovesRunBesideTheComputing) {
  const ProgramBuilder build = layer(true);
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  // The gather, 8 s, beside first's 288 s; second 48 s; the reduction, 8 s, beside third's 32 s; the update.
  EXPECT_EQ(starts(build.program, timeline), (std::vector<double>{0, 0, 288, 336, 336, 368}));
  EXPECT_DOUBLE_EQ(timeline.step_seconds,
                   368 + static_cast<double>(2 * build.program.training.step_bytes(DType::float32)));
}

TEST(Timeline, WhatIsReducedIsWaitedForWhereItsRoomIsNeeded) {
  const ProgramBuilder build = layer(true, false);
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  EXPECT_EQ(starts(build.program, timeline), (std::vector<double>{0, 0, 32, 80, 88, 120}));
}

TEST(Timeline, OtherMovesAreWaitedFor) {
  const ProgramBuilder build = layer(false);
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  EXPECT_EQ(starts(build.program, timeline), (std::vector<double>{0, 8, 296, 344, 352, 384}));
}

// A sum of what was reduced waits for the reduction, and no computing waits for it.
TEST(Timeline, SumsOfWhatWasReducedRunBehindTheReduction) {
  for (const bool beside : {true, false}) {
    ProgramBuilder build = layer(true);
    auto& instructions = build.program.instructions;
    const auto reduction = std::find_if(instructions.begin(), instructions.end(), [](const Instruction& here) {
      return here.move() != nullptr && here.move()->kind == MoveKind::reduce_scatter;
    });
    const ProgramValueId reduced = reduction->results[0];
    Instruction sum;
    sum.action = Accumulate{};
    sum.operands.assign(2, {"", reduced, build.program.type(reduced).layout});
    sum.results = {reduced};
    if (beside) sum.stream = Stream::communication;
    instructions.insert(reduction + 1, sum);
    place_frees(build.program);
    const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
    // The reduction from 336 to 344, the sum of 3 times 8 bytes; third at once, or behind it.
    EXPECT_EQ(starts(build.program, timeline), (std::vector<double>{0, 0, 288, 336, 344, beside ? 336.0 : 368.0, beside ? 368.0 : 400.0}));
  }
}

TEST(Timeline, TextSumsByPhaseAndStream) {
  const ProgramBuilder build = layer(true);
  const std::string text = timeline_text(build.program, make_timeline(build.program, kOps, build.profile).value());
  EXPECT_NE(text.find("computing                   368000.000     0.000"), std::string::npos) << text;
  EXPECT_NE(text.find("parameters' moves beside it  16000.000"), std::string::npos) << text;
  EXPECT_NE(text.find(" 48000.000 ms  at288000.000  forward   second"), std::string::npos) << text;
}

TEST(Timeline, RefusesAProgramThatIsNotFinished) {
  ProgramBuilder build = layer(true);
  build.program.instructions[0].action = Convert{};
  EXPECT_FALSE(make_timeline(build.program, kOps, build.profile).ok());
}

}  // namespace
}  // namespace meshwright
