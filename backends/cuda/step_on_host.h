// One rank's step of a small program, built as a run does it, in memory of the host. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "program_fixtures.h"
#include "step_builder.h"

namespace meshwright::cuda {

class StepOnHost {
 public:
  // Of what the builder has; frees are put in. `plans`: what libraries take.
  StepOnHost(const meshwright::testing::ProgramBuilder& build, Program finished, const LibraryPlans& plans)
      : program(std::move(finished)) {
    place_frees(program);
    arena = make_arena(program);
    const BackendInput input{program, families_, build.profile, nullptr, [](ValueId, std::int64_t) { return nullptr; },
                             nullptr, {}};
    const RankStep measured = built(input, Block::nowhere(), plans);  // the first time for its size alone
    Block block = measured.block;
    bytes_.resize(block.bytes() + kBeginsAt);
    block.base = bytes_.data() + (kBeginsAt - reinterpret_cast<std::uintptr_t>(bytes_.data()) % kBeginsAt) % kBeginsAt;
    step = built(input, block, plans);
    EXPECT_EQ(step.block.bytes(), measured.block.bytes());
    memory = {block.base, block.bytes()};
  }

  // What nobody reads has none.
  [[nodiscard]] bool has_place(ProgramValueId value) const { return arena.offsets[value] != Arena::kNone; }
  [[nodiscard]] std::byte* place(ProgramValueId value) const {
    EXPECT_TRUE(has_place(value)) << value;
    return memory.data() + arena.offsets[value];
  }
  // Where a value is that the program hands out.
  [[nodiscard]] const Seen& handed(ProgramValueId value) const { return step.handed.at({value, 0}).seen; }

  Program program;
  Arena arena;
  RankStep step;
  std::span<std::byte> memory;

 private:
  static constexpr std::size_t kBeginsAt = 256;

  class NoFamilies final : public OpTable {
    [[nodiscard]] const OpFamily* find(std::string_view) const override { return nullptr; }
  };

  RankStep built(const BackendInput& input, const Block& block, const LibraryPlans& plans) {
    const std::vector<Occurrence> steps = occurrences(input.program);
    std::vector<std::size_t> order(steps.size());
    const Links links = Links::make({&input.program}, {0}, {order}).value();
    ViewFinder views(families_);
    Result<RankStep> made = StepBuilder(input, {links, 0, {}}, steps, arena, 0, block, views, plans).build();
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }

  NoFamilies families_;
  std::vector<std::byte> bytes_;
};

}  // namespace meshwright::cuda
