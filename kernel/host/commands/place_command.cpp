#include "commands/place_command.h"

#include <cstdio>
#include <memory>

#include "config/config_schema.h"
#include "config/toml_config.h"
#include "files/placement_reader.h"
#include "meshwright/placement.h"
#include "plugins/plugin_host.h"
#include "report/placement_report.h"
#include "report/report_error.h"

namespace meshwright::host {

namespace {

Result<std::optional<std::int64_t>> bytes_of(const char* option, const std::string& text) {
  if (text.empty()) return std::optional<std::int64_t>();
  const Result<std::int64_t> bytes = parse_bytes(text);
  if (!bytes) return add_context(option, bytes.error());
  return std::optional<std::int64_t>(*bytes);
}

Result<PlacementProblem> read_problem(const PlaceOptions& options) {
  PlacementSettings settings;
  if (options.devices > 0) settings.devices = options.devices;
  const auto memory = bytes_of("--memory", options.memory);
  if (!memory) return memory.error();
  const auto bandwidth = bytes_of("--bandwidth", options.bandwidth);
  if (!bandwidth) return bandwidth.error();
  settings.device_bytes = *memory;
  settings.bytes_per_second = *bandwidth;
  return read_placement(options.input, settings);
}

Result<PlacedStages> place(const PlaceOptions& options) {
  Result<PlacementProblem> problem = read_problem(options);
  if (!problem) return problem.error();
  const std::string inter = options.inter.empty() ? std::string(name(*problem)) : options.inter;
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  const Result<std::shared_ptr<InterSolver>> solver = host->create<InterSolver>("inter", inter);
  if (!solver) return solver.error();
  Result<PlacementAnswer> answer = (*solver)->solve(*problem);
  if (!answer) return add_context(options.input, answer.error());
  if (answer->status == SolveStatus::infeasible) return infeasible(options.input + ": no stages fit: " + answer->binding);
  Result<PlacementCost> cost = evaluate(*problem, answer->stages);
  if (!cost) return cost.error();
  return PlacedStages{inter, std::move(*problem), std::move(*answer), std::move(*cost)};
}

}  // namespace

int run_place(const PlaceOptions& options) {
  const Result<PlacedStages> placed = place(options);
  if (!placed) return report_error(placed.error());
  const std::string text = options.format == "json" ? write_json(placement_json(*placed)) : placement_text(*placed);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace meshwright::host
