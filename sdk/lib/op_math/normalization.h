// The gradient that reaches a normalized input through its statistics, where a model uses these too.
#pragma once

#include <optional>

#include "term.h"

namespace meshwright {

// ∂mean/∂x = 1/count, ∂rstd/∂x = −rstd³ (x − mean)/count. `mean` and `rstd` broadcast to `x`, whose lines have `count`
// elements; a gradient that is kNoId is of what nobody uses. Nothing if both are.
inline std::optional<Term> through_statistics(Term x, Term mean, Term rstd, ValueId of_mean, ValueId of_rstd, double count) {
  std::optional<Term> made;
  const auto gradient = [&](ValueId id) { return view({x.build(), id}, mean.type().shape); };
  if (of_mean != kNoId) made = expand(gradient(of_mean) / count, x.type().shape);
  if (of_rstd == kNoId) return made;
  const Term slope = gradient(of_rstd) * pow(rstd, 3) * (-1 / count);
  const Term share = (x - mean) * slope;
  return made ? *made + share : share;
}

}  // namespace meshwright
