#include "commands/open_plan.h"

#include "config/toml_config.h"
#include "files/input_file.h"
#include "files/plan_reader.h"
#include "report/report_error.h"

namespace meshwright::host {

Result<OpenPlan> open_plan(const ProgramOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  Result<std::unique_ptr<OpTable>> ops = host->op_table();
  if (!ops) return ops.error();
  Result<Plan> plan = read_plan(options.plan, **ops);
  if (!plan) return plan.error();
  if (Status status = check_planned_model(*plan, options.allow_changed_model); !status) return status.error();
  Result<ProgramTools> tools = open_tools(*host, *plan, std::move(*ops));
  if (!tools) return tools.error();
  return OpenPlan{std::move(*plan), std::move(*host), std::move(*tools)};
}

int fail(const ProgramOptions& options, const Error& error) {
  return report_error(error.message.starts_with(options.plan) ? error : add_context(options.plan, error));
}

}  // namespace meshwright::host
