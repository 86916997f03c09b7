// What a model's stages (linearize.h) take and hold in a plan, for the solvers of chains (checkpoint.h): MAP's Tables 1
// and 2 of §5.2.1 in the prices and the memory account of the search problem itself.
#pragma once

#include <cstdint>
#include <span>

#include "meshwright/checkpoint.h"
#include "meshwright/linearize.h"
#include "meshwright/recompute.h"
#include "meshwright/strategy.h"

namespace meshwright {

// The chain of one strategy for each variable. Ticks are per microbatch, bytes on one device; the sum of all ticks is
// that of the problem's costs, without updates.
//
//   forward ticks     ops, with the collectives inside and what converts their results for others: what runs again pays
//                     for them again
//   backward ticks    the rest: gradients of ops and sums of them, what converts them, parameters' gathers and reductions
//                     as far as nothing hides them, and constants, none of which runs again with a forward
//   input_bytes       the chain's value as its op or its fork yields it. Of the first stage 0: inputs are there anyway
//   saved_bytes       storages that backwards of the stage take, and the chain's value behind it; without inputs of the
//                     model, what common nodes make, and the stage's own input. Copies of one storage in several layouts
//                     are told apart by their bytes
//   overhead bytes    the most of those memory terms of the problem that begin and end within the stage's forward, or its
//                     backward; of the backward without the two gradients of the chain
//
// What parameters hold is no part of it. `chain` is that of the model, which has a backward, and `problem` was built of
// `input`.
//
// With `again`, all that a plan of ours could run again, values and what is saved are of what such a plan could let go:
// values that it makes again, and copies that its ops take of others in another layout. What is kept whatever is chosen, of
// this stage and of those before it, is part of the overheads: it is held while the stage's forward or backward runs, so
// that a chain holds most when its plan does. What converts an operand of an op that may run again is of that op's stage.
MESHWRIGHT_API Chain chain_of(const ProblemInput& input, const Problem& problem, const ModelChain& chain,
                              std::span<const std::uint32_t> choice, const Recomputation* again = nullptr);

}  // namespace meshwright
