// Chains that tests draw, and chains of equal stages.
#pragma once

#include <cstdint>
#include <random>

#include "meshwright/checkpoint.h"

namespace meshwright {

// Whether the gradient of a value may be larger than the value.
enum class Gradients : std::uint8_t { no_larger_than_values, any };

// So small that every schedule can be tried: times of up to 40 ticks and sizes of up to 12 units, all of them
// different.
inline Chain random_chain(std::uint64_t seed, std::size_t stages, Gradients gradients, std::int64_t unit_bytes = 1) {
  std::mt19937_64 random(seed);
  const auto draw = [&random](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  Chain chain;
  chain.stages.resize(stages);
  for (ChainStage& stage : chain.stages) {
    stage.forward_ticks = 1 + draw(20);
    stage.backward_ticks = draw(20);
    stage.forward_communication_ticks = draw(3) == 0 ? draw(20) : 0;
    stage.backward_communication_ticks = draw(3) == 0 ? draw(20) : 0;
    stage.input_bytes = draw(6) * unit_bytes;
    stage.input_gradient_bytes =
        gradients == Gradients::any ? draw(8) * unit_bytes : draw(stage.input_bytes / unit_bytes + 1) * unit_bytes;
    stage.forward_overhead_bytes = (draw(3) == 0 ? draw(8) : 0) * unit_bytes;
    stage.backward_overhead_bytes = (draw(3) == 0 ? draw(8) : 0) * unit_bytes;
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::int64_t output = stage + 1 < stages ? chain.stages[stage + 1].input_bytes : 0;
    chain.stages[stage].saved_bytes = output + draw(7) * unit_bytes;
  }
  return chain;
}

// Stages alike: values and gradients of one unit, and `saved_units` of what a forward saves.
inline Chain equal_chain(std::size_t stages, std::int64_t saved_units = 1) {
  Chain chain;
  chain.stages.assign(stages, {.forward_ticks = 10,
                               .backward_ticks = 20,
                               .input_bytes = 1,
                               .input_gradient_bytes = 1,
                               .saved_bytes = saved_units});
  return chain;
}

}  // namespace meshwright
