#include "commands/open_plan.h"

#include "config/toml_config.h"
#include "files/input_file.h"
#include "files/pipeline_reader.h"
#include "report/report_error.h"

namespace meshwright::host {

Result<PluginHost> open_host(const ProgramOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  return PluginHost::open(std::move(*tree));
}

Result<OpenAnyPlan> open_any_plan(const ProgramOptions& options) {
  Result<PluginHost> host = open_host(options);
  if (!host) return host.error();
  return open_any_plan(options, std::move(*host));
}

Result<OpenAnyPlan> open_any_plan(const ProgramOptions& options, PluginHost host) {
  Result<std::unique_ptr<OpTable>> ops = host.op_table();
  if (!ops) return ops.error();
  Result<std::variant<Plan, PipelinePlan>> plan = read_any_plan(options.plan, **ops);
  if (!plan) return plan.error();
  const auto* pipeline = std::get_if<PipelinePlan>(&*plan);
  const Plan& first = pipeline != nullptr ? pipeline->stages.front() : std::get<Plan>(*plan);
  if (Status status = check_planned_model(first, options.allow_changed_model); !status) return status.error();
  Result<ProgramTools> tools = open_tools(host, first, std::move(*ops));
  if (!tools) return tools.error();
  return OpenAnyPlan{std::move(*plan), std::move(host), std::move(*tools)};
}

Result<Plan> plan_of_stage(std::variant<Plan, PipelinePlan> plan, const std::string& file, std::optional<std::uint32_t> wanted) {
  if (auto* whole = std::get_if<Plan>(&plan)) {
    if (wanted) return bad_input("--stage " + std::to_string(*wanted) + ": " + file + " is a plan of one stage");
    return std::move(*whole);
  }
  const PipelinePlan& pipeline = std::get<PipelinePlan>(plan);
  const std::string stages = file + " is a plan of " + std::to_string(pipeline.stages.size()) + " stages";
  if (!wanted) return bad_input(stages + ", which `plan`, `verify`, `run`, `simulate` and `emit` take whole, `explain` and `profile` with --stage, and no other command so far");
  if (*wanted >= pipeline.stages.size()) return bad_input("--stage " + std::to_string(*wanted) + ": " + stages + ", numbered from 0");
  return pipeline.stages[*wanted];
}

Result<OpenPlan> open_plan(const ProgramOptions& options) {
  Result<OpenAnyPlan> opened = open_any_plan(options);
  if (!opened) return opened.error();
  Result<Plan> plan = plan_of_stage(std::move(opened->plan), options.plan, options.stage);
  if (!plan) return plan.error();
  return OpenPlan{std::move(*plan), std::move(opened->host), std::move(opened->tools)};
}

int fail(const ProgramOptions& options, const Error& error) {
  return report_error(error.message.starts_with(options.plan) ? error : add_context(options.plan, error));
}

}  // namespace meshwright::host
