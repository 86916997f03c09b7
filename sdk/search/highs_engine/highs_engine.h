// HiGHS behind one class, by its C interface.
#pragma once

#include "integer_solver.h"

namespace meshwright::ilp {

class Highs final : public Engine {
 public:
  [[nodiscard]] std::string name() const override { return "HiGHS"; }
  // Ten times the tolerances that HiGHS is given for gaps, feasibility, integrality and reduced costs, 1e-8; it does
  // not look for solutions that are better by less than its feasibility's either.
  [[nodiscard]] double relative_margin() const override { return 1e-8; }
  [[nodiscard]] double absolute_margin() const override { return 1e-7; }
  // On one thread, with the simplex method only. Work is counted in its iterations, each of which is taken for reading
  // the program's rows once, and in nodes of the search, each for reading its entries a hundred times. Within the
  // search iterations are counted where HiGHS asks whether to go on.
  [[nodiscard]] EngineAnswer run(const LinearProgram& program, bool integer, const EngineLimits& limits) const override;
};

}  // namespace meshwright::ilp
