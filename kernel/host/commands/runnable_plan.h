// A plan as the ranks of this machine's CPUs run it, and the numbers that it is run with: what `verify` and `run` have in common.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "plugins/plugin_host.h"
#include "plugins/program_source.h"

namespace meshwright::host {

// The programs of a plan: of several stages, or of one that is the whole model.
struct RunnablePlan {
  Graph model;               // of one microbatch
  TrainingSettings training;
  std::vector<Plan> stages;
  StagePrograms made;        // by stage
  GroupOrders orders;        // of several stages, of their devices
  bool is_whole = true;

  // Whose values have the names that they have in the model.
  [[nodiscard]] const Graph& graph(std::size_t stage) const { return is_whole ? model : stages[stage].graph(); }
};

// A CPU computes in float32, or, if `exact`, in float64: what a plan computes, keeps and reduces in less is computed in that. `who` says so in a warning. Errors: those
// of make_program.
Result<RunnablePlan> make_runnable(std::variant<Plan, PipelinePlan> plan, const ProgramTools& tools, bool exact, const char* who);

// Weights and buffers by their values' names, as the model's file holds them, in the types in which the plan is run. Nothing, and a warning of `who`, where the file
// is not there or is another one than was planned: then they are drawn (sources.h). Errors: those of the frontend.
Result<std::map<std::string, Tensor>> weights_of(const RunnablePlan& plan, PluginHost& host, bool exact, const char* who);

// Ranks free and take large tensors again and again: from here on what is freed stays with the process, so that its pages need not be cleared anew each time.
void keep_freed_memory();

}  // namespace meshwright::host
