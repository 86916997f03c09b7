// The plan of a stage, put together of what a short model does where it computes the same (split_ways.h): ops as many as a stage has, layouts and what runs again as the few that were searched for have them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "fitted_search.h"
#include "pins.h"
#include "split_ways.h"

namespace meshwright {

// Where the short model says what the whole could do, and no setting asks for what it does not know.
bool can_assemble(const ModelUnits& whole, const ShortModel& shorter, const IntraSolver& solver, const Config& search);

// What a stage was put together of. In others like it only that is tried, unless it turns out to be another plan there.
struct AssembledPart {
  double part = 0;
  std::int64_t peak_bytes = 0;
  double step_seconds = 0;
};
// Of the same ways: by number of nodes, what the recipe says, budget, and order of microbatches.
using AssembledParts = std::map<std::tuple<std::size_t, std::size_t, std::size_t, double, double, std::int64_t, std::string>, AssembledPart>;

struct StageRecipe {
  const SplitWays& ways;
  std::size_t faster = 0, smaller = 0;  // of these: the last ops of the stage go the faster one, the first ones the smaller
  double part = 1;                      // of its ops the faster one, at first
  double part_bytes = 0;                // what a device would hold more if all of the stage and not none of it went the faster one, as far as is known; 0: both are the same
  AssembledParts* known = nullptr;      // if given, read and added to
};

// Within the budget: with fewer ops that go the faster way, where that is needed, and more, where there is room. What the short model does not say (how what another stage sends arrives) is searched for. Nothing
// where all of it the smaller way does not fit, or the choices do not fit together. Errors: those of building and lowering.
Result<std::optional<FittedPlan>> assemble_stage(const PlanningContext& stage, const FittedSolver& solver, const std::vector<Pin>& pins, const ModelAnalysis& short_model, const AlikeNames& alike,
                                                 const StageRecipe& recipe, std::int64_t budget);

}  // namespace meshwright
