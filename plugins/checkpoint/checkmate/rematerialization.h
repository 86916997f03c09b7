// What Checkmate decides about a chain, as whole numbers, and the schedule that it is.
//
// Time is cut into Checkmate's stages (Jain et al. 2020, §4.2, "frontier advancing"); here they are phases, since a
// stage is a part of the chain. Within a phase the forwards that run do so in the order of the chain, each at most
// once, and the phase ends with what runs for the first time in it: its frontier.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwright/checkpoint.h"

namespace meshwright::checkmate {

// Forwards of the stages 0 to forwards - 1 may run; then the backward of stage forwards - 1 does, if there is one.
struct Phase {
  std::size_t forwards = 0;
  bool has_backward = false;
};

// Of a chain of n stages: n phases whose frontiers are the forwards, then n whose frontiers are the backwards.
std::vector<Phase> phases_of(std::size_t stages);

// The phase whose frontier is the stage's backward.
inline std::size_t backward_phase(std::size_t stages, std::size_t stage) { return 2 * stages - 1 - stage; }

// What no schedule regrets, so that nothing else need be decided:
// - What a stage saves is of use to its backward alone, so it is held from the one forward that saves it to there;
// where
//   it would be let go before, a forward that makes the value alone does as well.
// - A value that is held by itself when its stage saves all was of no use since the phase began.
// - A forward runs where its value is wanted and not held.
struct Rematerialization {
  // By phase and stage: the stage's input is held by itself as the phase begins (S of the value). Never of stage 0,
  // whose input is held all the time.
  std::vector<std::vector<bool>> holds_input;
  std::vector<std::size_t> saving_phase;  // by stage: in which its forward keeps all (R, then S of ā); not after its
                                          // backward's
};

// Nothing is held but the chain's input, and each stage saves in the phase of its backward.
Rematerialization hold_nothing(std::size_t stages);

// The schedule that holds what it is told to, except for what nobody reads, and runs the forwards that this takes (R
// given S, §5.2). Always one that replay accepts.
ChainSchedule schedule_of(const Chain& chain, Rematerialization decided);

}  // namespace meshwright::checkmate
