// Where buffers lie: apart while they are there, and one after the other where they can be.
#include "meshwright/arena.h"

#include <gmock/gmock.h>

#include "linear_program.h"

namespace meshwright::test {
namespace {

using testing::HasSubstr;

std::string refusal(const Program& program, const Arena& arena) {
  const Status status = check_arena(program, arena);
  return status ? "right" : status.error().message;
}

TEST(Arena, IsRightWhateverIsShardedAndRepeated) {
  for (const ZeroStage stage : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradient, ZeroStage::value}) {
    for (const std::int64_t microbatches : {1, 2, 5}) {
      const Program program = linear_program(stage, microbatches);
      EXPECT_EQ(refusal(program, make_arena(program)), "right") << static_cast<int>(stage) << ", " << microbatches;
    }
  }
}

// Each microbatch's values lie where those of the one before lay: only its inputs are there from the start.
TEST(Arena, DoesNotGrowWithMicrobatches) {
  const auto without_inputs = [](std::int64_t microbatches) {
    const Program program = linear_program(ZeroStage::value, microbatches);
    std::int64_t bytes = make_arena(program).bytes;
    for (const ProgramInput& input : program.inputs) bytes -= program.local_bytes(input.value);
    return bytes;
  };
  EXPECT_LE(without_inputs(8), without_inputs(2) + 2 * Arena::kAlignment);
}

TEST(Arena, LeavesAParameterWhereItLay) {
  const Program program = linear_program(ZeroStage::optimizer, 2);
  const Arena arena = make_arena(program);
  for (const ProgramParameter& parameter : program.parameters) {
    ASSERT_NE(parameter.updated, kNoId);
    EXPECT_EQ(arena.offsets[program.place(parameter.updated, 1)], arena.offsets[program.place(parameter.value, 0)]);
  }
}

TEST(Arena, IsRefusedWhereBuffersMeet) {
  const Program program = linear_program(ZeroStage::none, 1);
  const Arena arena = make_arena(program);
  const ProgramValueId weight = program.parameters[0].value, x = program.inputs[0].value;
  Arena altered = arena;
  altered.offsets[x] = altered.offsets[weight];
  EXPECT_THAT(refusal(program, altered), HasSubstr("while both are there"));
  altered = arena;
  altered.offsets[x] = arena.bytes - Arena::kAlignment;
  EXPECT_THAT(refusal(program, altered), HasSubstr("outside of the arena"));
  altered = arena;
  altered.bytes = Arena::kAlignment;
  EXPECT_THAT(refusal(program, altered), HasSubstr("outside of the arena"));
}

}  // namespace
}  // namespace meshwright::test
