// A plan's file, opened with the plugins that work on it: what all commands on plans begin with.
#pragma once

#include <variant>

#include "commands/program_commands.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "plugins/plugin_host.h"
#include "plugins/program_source.h"

namespace meshwright::host {

struct OpenPlan {
  Plan plan;
  PluginHost host;
  ProgramTools tools;
};

// Errors: bad_input (the file, the configuration; a plan of several stages), plugin_failed.
Result<OpenPlan> open_plan(const ProgramOptions& options);

// The same of a plan of one stage or of several.
struct OpenAnyPlan {
  std::variant<Plan, PipelinePlan> plan;
  PluginHost host;
  ProgramTools tools;
};
Result<OpenAnyPlan> open_any_plan(const ProgramOptions& options);
// In two steps, for who needs a plugin before the plan is read.
Result<PluginHost> open_host(const ProgramOptions& options);
Result<OpenAnyPlan> open_any_plan(const ProgramOptions& options, PluginHost host);
// The plan of a file: of several stages, of the one that is wanted. Errors: bad_input if none of several is named, or one that there is not.
Result<Plan> plan_of_stage(std::variant<Plan, PipelinePlan> plan, const std::string& file, std::optional<std::uint32_t> wanted);

// Reports the error, naming the plan unless the message does. The exit code.
int fail(const ProgramOptions& options, const Error& error);

}  // namespace meshwright::host
