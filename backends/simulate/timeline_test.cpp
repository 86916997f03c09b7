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

// Kernels and moves take twice as long as long as they run beside each other, and only so long.
TEST(Timeline, WhatRunsBesideEachOtherStretchesBoth) {
  ProgramBuilder build = layer(true);
  build.profile.device.computing_stretch = build.profile.device.communication_stretch = 2;
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  // The gather takes 16 s, in which first does 8 s of its 288; the reduction 16 s, in which third does 8 s of its 32.
  EXPECT_EQ(starts(build.program, timeline), (std::vector<double>{0, 0, 296, 344, 344, 384}));
  EXPECT_DOUBLE_EQ(timeline.spans[0].seconds(), 16);
  EXPECT_DOUBLE_EQ(timeline.communication_seconds, 16);  // as alone

  ProgramBuilder waits = layer(true, false);
  waits.profile.device.computing_stretch = waits.profile.device.communication_stretch = 2;
  // Third waits for the reduction, beside which nothing computes: 8 s.
  EXPECT_EQ(starts(waits.program, make_timeline(waits.program, kOps, waits.profile).value()), (std::vector<double>{0, 0, 40, 88, 96, 128}));
}

// Where nothing computes for longer than the communication takes, the rest of it runs alone.
TEST(Timeline, CommunicationThatIsLeftOverRunsAlone) {
  ProgramBuilder build = layer(true);
  build.profile.device.communication_stretch = 100;
  const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
  // In first's 288 s the gather does 2.88 of its 8, and second waits for the other 5.12.
  EXPECT_NEAR(starts(build.program, timeline)[2], 293.12, 1e-6);
}

// Three gradients of 16 bytes: those that fill a bucket are reduced when the last of them is there, the others when the backward ends.
TEST(Timeline, GradientsWaitForABucket) {
  const auto reductions = [](std::int64_t bucket_bytes) {
    ProgramBuilder build = testing::slow_builder({2});
    build.program.training.optimizer = Optimizer::sgd;
    build.program.bucket_bytes = bucket_bytes;
    const ProgramValueId x = build.input("x", count_up({4}), "R");
    std::vector<ProgramValueId> reduced;
    ProgramValueId last = x;
    for (const char* name : {"a", "b", "c"}) {
      build.parameter(name, count_up({4}), "R");
      last = build.compute(name, {last}, "R+P0");
      reduced.push_back(build.move(MoveKind::all_reduce, 0, last, "R"));
      last = build.compute("next", {x}, "R");
    }
    for (Instruction& instruction : build.program.instructions) {
      instruction.phase = Phase::backward;
      if (instruction.kind() != InstructionKind::move) continue;
      instruction.stream = Stream::communication;
      instruction.parameter = static_cast<std::uint32_t>(std::ranges::find(reduced, instruction.results[0]) - reduced.begin());
    }
    for (std::uint32_t i = 0; i < 3; ++i) build.update(i, reduced[i]);
    place_frees(build.program);
    const Timeline timeline = make_timeline(build.program, kOps, build.profile).value();
    std::vector<std::string> before;  // of each reduction, what had ended when it began
    for (const Span& span : timeline.spans) {
      const Instruction& instruction = build.program.instructions[span.at.instruction];
      if (instruction.kind() != InstructionKind::move) continue;
      std::string ended;
      for (const Span& other : timeline.spans) {
        const Instruction& kernel = build.program.instructions[other.at.instruction];
        if (kernel.compute() != nullptr && other.end() <= span.start) ended += kernel.name.front();
      }
      before.push_back(ended);
    }
    return before;
  };
  EXPECT_EQ(reductions(10), (std::vector<std::string>{"a", "anb", "anbnc"}));
  EXPECT_EQ(reductions(32), (std::vector<std::string>{"anb", "anb", "anbnc"}));
  EXPECT_EQ(reductions(1000), (std::vector<std::string>{"anbnc", "anbnc", "anbnc"}));
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
