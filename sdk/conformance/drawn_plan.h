// Plans that nobody would choose: a random strategy for every variable.
#pragma once

#include <cstdint>

#include "meshwright/plan.h"
#include "meshwright/strategy.h"

namespace meshwright {

// A model in float64, so that an error cannot hide in rounding.
Result<ModelAnalysis> make_float64_model(Graph graph, const OpTable& ops);

// A mesh of this shape whose figures do not matter.
Mesh plain_mesh(const std::vector<std::int64_t>& shape);
CostProfile plain_profile();

// Draws strategies, one for each variable, each among those that go together with what was drawn before.
// `problem` is that of build_problem. Errors: internal_error if a draw leaves a variable without a choice, many times.
Result<std::vector<std::uint32_t>> draw_choice(const Problem& problem, std::uint64_t seed);

// The plan of a choice, and of a drawn one.
Result<Plan> plan_of_choice(const ProblemInput& input, const Problem& problem, std::vector<std::uint32_t> choice);
Result<Plan> draw_plan(const ProblemInput& input, const Problem& problem, std::uint64_t seed);

// As draw_plan, but for the strategy of one variable.
Result<Plan> draw_plan_with(const ProblemInput& input, const Problem& problem, std::size_t variable, std::uint32_t strategy);

}  // namespace meshwright
