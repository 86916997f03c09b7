// At which wrong figures of the cost model one plan would overtake another: both programs stay as they are, and are priced and
// simulated again (timeline.h) with one coefficient scaled.
//
// A coefficient is scaled by a factor between kLeastFactor and kMostFactor; an efficiency by no more than what makes it 1. The
// steps are compared at 1, at the powers of two in between, and at both ends. On each side of 1, where the order of the two plans
// is the other way for the first time, the interval to the point before is narrowed (regula falsi, Illinois variant) until it is
// shorter than a hundredth of the way from 1, both as logarithms; of the two sides the factor nearer to 1 counts, as a ratio, and
// it is one at which the runner-up is faster by simulation. A flip and a flip back between two neighbouring points are not seen.
// Points are left out where the answer follows, if no step gets shorter when something takes longer.
//
// Deterministic; owns nothing. Seconds.
#pragma once

#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/cost.h"
#include "meshwright/op.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/runner_up.h"

namespace meshwright {

inline constexpr double kLeastFactor = 1.0 / 8, kMostFactor = 8;

// Whether it is of one level of links.
bool is_link(CostCoefficient coefficient);

// A coefficient of one cluster.
struct ScaledCoefficient {
  CostCoefficient coefficient = CostCoefficient::link_bandwidth;
  std::size_t level = 0;      // of a link: index into Cluster::levels
  double most = kMostFactor;  // beyond it an efficiency would be above 1
};

// All that are more than 0, in the order of CostCoefficient, levels from the innermost outwards.
std::vector<ScaledCoefficient> coefficients_of(const Cluster& cluster, const CostProfile& profile);

// With a coefficient multiplied by `factor`, which is more than 0.
Cluster scaled(Cluster cluster, const ScaledCoefficient& coefficient, double factor);
CostProfile scaled(CostProfile profile, const ScaledCoefficient& coefficient, double factor);

// For each coefficient of the cluster. Both programs are finished, of one model, on meshes that cover the cluster; `profile` is
// what they are priced with. Where the runner-up is no slower as it is, every factor is 1. Errors: those of make_timeline and make_mesh.
Result<std::vector<BreakEven>> break_evens(const Cluster& cluster, const CostProfile& profile, const OpTable& ops, Program plan, Program runner_up);

}  // namespace meshwright
