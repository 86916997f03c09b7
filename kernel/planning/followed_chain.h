// The chain of a plan as far as plans of ours can follow a schedule of it (recompute.h): what no schedule can change of them is no part of what solvers of chains
// choose by, so that their best schedule is the best that is run.
//
// - What crosses a block's border is kept, so bytes of values and of what is saved are of the rest alone, and what is kept is part of the overheads (plan_chain.h).
// - So a stage may end at each such border, whatever else is pending there. By MAP's rules (linearize.h) one stage can be of several blocks: those of the second tower
//   of a CLIP, or all of a T5. As a plan runs them again one by one, such a stage is cut into one for each.
// - An op that is in no block, that pins keep, or whose result nobody asks for (the last product of a block) runs once. Its ticks stand with its stage's backward, so
//   that a forward takes what running it again does.
//
// A chain has one price for a forward, whether the value that it makes is held already or not. In a plan an op whose value is held does not run again: often the dearest of
// its stage, with what converts its result. So there are two chains of a plan. In one all of the chain's values are kept, and what makes them runs once, unless it makes
// something else to let go (schedule_ops.h); in the other those within a block may go.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "meshwright/checkpoint.h"
#include "meshwright/linearize.h"
#include "recompute_search.h"
#include "schedule_ops.h"

namespace meshwright {

class FollowedChains {
 public:
  // `wish` outlives this. Errors: those of building problems in which all runs again that may.
  static Result<FollowedChains> make(const RecomputeWish& wish);
  // Those where this one's values are all kept. The same errors.
  [[nodiscard]] Result<FollowedChains> keeping_values() const;

  [[nodiscard]] const ModelChain& model() const { return model_; }
  // The chain of one strategy for each variable of the wish's problem, of the model's stages. Its ticks add up to those of chain_of.
  [[nodiscard]] Chain of(std::span<const std::uint32_t> choice) const;
  // What of such a chain runs again.
  [[nodiscard]] ScheduledOps ops_of(std::span<const ChainOperation> schedule, const Chain& chain, std::int64_t spare_bytes) const;

 private:
  FollowedChains(const RecomputeWish& wish, ModelChain model, ValueMakers makers, Problem all)
      : wish_(&wish), model_(std::move(model)), makers_(std::move(makers)), all_(std::move(all)) {}

  void leave_out_makers(std::vector<bool>& ops) const;  // of the chain's values

  [[nodiscard]] std::vector<TickSum> ticks_again(std::span<const std::uint32_t> choice) const;  // by stage
  [[nodiscard]] std::uint32_t stage_of(std::uint32_t variable) const;

  const RecomputeWish* wish_;
  ModelChain model_;
  ValueMakers makers_;
  Problem all_;  // in which all runs again that may
  bool keeps_values_ = false;
};

// The chain with a stage for each block where several, one behind the other, are one stage. `again`: all that may run again.
ModelChain cut_at_blocks(const ModelAnalysis& model, const Recomputation& again, const ModelChain& chain);

}  // namespace meshwright
