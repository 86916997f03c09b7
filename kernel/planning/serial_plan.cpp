#include "serial_plan.h"

namespace meshwright {

CostProfile any_profile() {
  constexpr double kRate = 1e15;
  CostProfile profile;
  profile.device.name = "one device";
  profile.device.memory_bytes_per_second = kRate;
  profile.device.vector_flops_per_second = kRate;
  return profile;
}

Result<Plan> serial_plan(const PlanningContext& context) {
  const Mesh one_device;
  const ProblemInput input{context, one_device, {}};
  Result<Problem> problem = build_problem(input);
  if (!problem) return problem.error();
  Assignment assignment;
  assignment.status = SolveStatus::optimal;
  assignment.method = "one device";
  assignment.choice.assign(problem->variables.size(), 0);  // of one strategy each
  return make_plan(input, *problem, assignment);
}

}  // namespace meshwright
