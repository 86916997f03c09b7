// CBC, and Clp for relaxations, behind one class, by their C interfaces.
#pragma once

#include "integer_solver.h"

namespace meshwright::ilp {

class Cbc final : public Engine {
 public:
  [[nodiscard]] std::string name() const override { return "CBC"; }
  // A bound gives up what CBC does not look for, solutions that are better by less than its cutoff increment (1e-6
  // here), and ten times the tolerances that it is given for feasibility and reduced costs, 1e-8.
  [[nodiscard]] double relative_margin() const override { return 1e-8; }
  [[nodiscard]] double absolute_margin() const override { return 2e-6; }
  // On one thread. Work is counted in nodes of the search, each of which is taken for reading the program's entries a
  // hundred times, and in iterations of a relaxation, each for reading its rows once. CBC's own first relaxation knows
  // no limits.
  [[nodiscard]] EngineAnswer run(const LinearProgram& program, bool integer, const EngineLimits& limits) const override;
};

}  // namespace meshwright::ilp
