// lp_solve behind one function, because its header defines hundreds of macros (DESIGN §6).
#pragma once

#include <optional>
#include <vector>

#include "linear_program.h"

namespace meshwright::ilp {

struct EngineAnswer {
  enum class Status { optimal, infeasible, stopped, failed } status = Status::failed;
  std::vector<double> values;  // of the best solution found; empty if none was
  double objective = 0;
};

// With `integer`, columns marked so are; else the relaxation is solved. Stops after `seconds`, or at a solution whose
// objective is `good_enough` or less.
EngineAnswer run_lp_solve(const LinearProgram& program, bool integer, double seconds,
                          std::optional<double> good_enough);

}  // namespace meshwright::ilp
