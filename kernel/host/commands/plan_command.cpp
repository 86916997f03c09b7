#include "commands/plan_command.h"

#include <filesystem>

#include "commands/handed_on.h"
#include "commands/size_command.h"
#include "config/toml_config.h"
#include "files/write_file.h"
#include "plugins/free_microbatches.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"
#include "plugins/suggestions.h"
#include "report/pipeline_json.h"
#include "report/plan_json.h"
#include "report/plan_text.h"
#include "report/report_error.h"

namespace meshwright::host {

namespace {

Result<PlanOutcome> plan_once(const PlanOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, overrides_of(options));
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  if (host->config().free_microbatches && host->config().search.text("inter") == "none") return plan_with_free_microbatches(options, plan_once);
  return run_pipeline(options, *host);
}

// What would fit, if nothing does.
Result<PlanOutcome> plan(const PlanOptions& options) {
  Result<PlanOutcome> outcome = plan_once(options);
  if (outcome && !options.known.empty()) {
    if (Status status = hand_on(options, *outcome); !status) return status.error();
  }
  const bool has_changes = options.explain && outcome && !outcome->stage_search;  // what is tried in other numbers of stages has no single change
  if (has_changes && !outcome->plan && !outcome->pipeline) outcome->refusal += suggestions_text(outcome->changes, plan_once);
  return outcome;
}

// "plan.json" → "plan.2.json"
std::string numbered_file(const std::string& path, std::size_t number) {
  std::filesystem::path made = path;
  const std::string extension = made.extension().string();
  made.replace_extension("." + std::to_string(number) + extension);
  return made.string();
}

Status write_plans(const PlanOutcome& outcome, const std::string& path) {
  if (outcome.pipeline) return write_file_atomically(path, write_json(pipeline_json(*outcome.pipeline)));
  for (std::size_t i = 0; i < outcome.next.size(); ++i) {
    const Status written = write_file_atomically(numbered_file(path, i + 2), write_json(plan_json(outcome.next[i])));
    if (!written) return written;
  }
  return write_file_atomically(path, write_json(plan_json(*outcome.plan)));
}

int plan_and_print(const PlanOptions& options) {
  Result<PlanOutcome> outcome = plan(options);
  if (!outcome) return report_error(outcome.error());
  const bool found = outcome->plan || outcome->pipeline;
  if (found && !options.output.empty()) {
    if (Status written = write_plans(*outcome, options.output); !written) return report_error(written.error());
  }
  print(options.format == "json" ? write_json(summary_json(*outcome)) : outcome_text(*outcome));
  if (!found) return report_error(infeasible(outcome->refusal));
  return 0;
}

}  // namespace

int run_plan(const PlanOptions& options) {
  if (options.devices.empty()) return plan_and_print(options);
  const Result<DeviceSizes> sizes = read_device_sizes(options);
  if (!sizes) return report_error(sizes.error());
  if (sizes->asked.size() > 1) return run_device_sizes(options, *sizes, plan_once);
  PlanOptions part = options;
  part.part_devices = sizes->asked.front();
  return plan_and_print(part);
}

}  // namespace meshwright::host
