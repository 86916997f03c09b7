// A step from one program to the next (plugins of kind "passes"; program.h says which are required, and their order).
#pragma once

#include <vector>

#include "meshwright/export.h"
#include "meshwright/plan.h"
#include "meshwright/planning_context.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright {

class MESHWRIGHT_API ProgramPass {
 public:
  virtual ~ProgramPass();
  Result<Program> run(Program program, const PlanningContext& context) const;
  // Whether it changes what the backward computes, beyond what its step has to do. Of such a program nothing can be emitted whose
  // backward autograd makes (decision 017).
  [[nodiscard]] virtual bool alters_backward() const { return true; }

 private:
  virtual Result<Program> do_run(Program program, const PlanningContext& context) const = 0;
};

// lower, then the passes in their order, then `free`s. Every step's result is validated.
MESHWRIGHT_API Result<Program> make_program(const Plan& plan, const PlanningContext& context, const std::vector<const ProgramPass*>& passes);

}  // namespace meshwright
