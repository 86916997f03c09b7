#include "meshwright/lower.h"
#include "meshwright/program_pass.h"
#include "meshwright/stages.h"
#include "program/validate.h"

namespace meshwright {

Result<Program> make_program(const Plan& plan, const PlanningContext& context, const std::vector<const ProgramPass*>& passes) {
  Result<Program> program = lower(plan);
  if (!program) return program;
  if (Status status = validate_unfinished(*program); !status) return add_context("lowering", status.error());
  for (const ProgramPass* pass : passes) {
    program = pass->run(std::move(*program), context);
    if (!program) return program;
    if (Status status = validate_unfinished(*program); !status) return add_context("after a pass", status.error());
  }
  exchange_shared_gradients(plan.part, *program);
  mark_views(*program, context.ops);
  place_frees(*program);
  if (Status status = validate_finished(*program); !status) return status.error();
  return program;
}

}  // namespace meshwright
