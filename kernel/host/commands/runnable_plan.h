// A plan as the ranks of this machine run it, and the numbers that it is run with: what `verify` and `run` have in common.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "plugins/plugin_host.h"
#include "plugins/program_source.h"

namespace meshwright::host {

// The programs of a plan: of several stages, or of one that is the whole model.
struct RunnablePlan {
  Graph model;               // of one microbatch, with float32 for all half precision: weights and inputs are given in that
  TrainingSettings training;
  std::vector<Plan> stages;
  StagePrograms made;        // by stage
  GroupOrders orders;        // of several stages, of their devices
  bool is_whole = true;

  // Whose values have the names that they have in the model.
  [[nodiscard]] const Graph& graph(std::size_t stage) const { return is_whole ? model : stages[stage].graph(); }
};

// As the plan says, if the backend computes in its types. Otherwise in float32: what a plan computes, keeps and reduces in less is computed in that, and `who` says so in a
// warning. If `exact`: in float64. Errors: those of make_program.
Result<RunnablePlan> make_runnable(std::variant<Plan, PipelinePlan> plan, const ProgramTools& tools, const Backend& backend, bool exact, const char* who);

// Weights and buffers by their values' names, as the model's file holds them, in float32, or, if `exact`, in float64. Nothing, and a warning of `who`, where the file
// is not there or is another one than was planned: then they are drawn (sources.h). Errors: those of the frontend.
Result<std::map<std::string, Tensor>> weights_of(const RunnablePlan& plan, PluginHost& host, bool exact, const char* who);

// Ranks free and take large tensors again and again: from here on what is freed stays with the process, so that its pages need not be cleared anew each time.
void keep_freed_memory();

}  // namespace meshwright::host
