// lp_solve behind one class, because its header defines hundreds of macros (DESIGN §6).
#pragma once

#include "integer_solver.h"

namespace meshwright::ilp {

class LpSolve final : public Engine {
 public:
  [[nodiscard]] std::string name() const override { return "lp_solve"; }
  // Ten times lp_solve's tolerances for gaps, 1e-9, and, in units of numbers near 1, for integrality, 1e-7.
  [[nodiscard]] double relative_margin() const override { return 1e-8; }
  [[nodiscard]] double absolute_margin() const override { return 1e-6; }
  // Counts nothing: of the limits it honours seconds, and stops at a solution that is good enough.
  [[nodiscard]] EngineAnswer run(const LinearProgram& program, bool integer, const EngineLimits& limits) const override;
};

}  // namespace meshwright::ilp
