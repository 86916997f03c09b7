#include "commands/size_command.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "cluster_part.h"
#include "config/toml_config.h"
#include "files/write_file.h"
#include "plugins/plugin_host.h"
#include "report/report_error.h"
#include "report/size_report.h"

namespace meshwright::host {

namespace {

Result<std::int64_t> read_size(const std::string& text) {
  std::int64_t devices = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), devices);
  if (problem == std::errc() && end == text.data() + text.size()) return devices;
  return bad_input("--devices '" + text + "' is no number of devices; give whole numbers, such as 8,64,128");
}

// Of several sizes; each is planned by itself, and there is a table in place of a plan.
Status check_several(const PlanOptions& options, const PluginHost& host) {
  const auto refuse = [](const std::string& option, const std::string& why) { return bad_input(option + " " + why + ", and --devices names several sizes; leave it out, or name one size"); };
  if (!options.output.empty()) return refuse("-o " + options.output, "is of one plan");
  if (!options.known.empty()) return refuse("--known " + options.known, "is of one plan");
  if (options.top > 1) return refuse("--top " + std::to_string(options.top), "ranks the plans of one size");
  if (const std::string mesh = host.config().cluster.text("mesh"); !mesh.empty()) return refuse("the mesh " + mesh + " (--mesh, or \"mesh\" in [cluster])", "is of so many devices as it has");
  return Done{};
}

// Each is planned like the others: beside no usual plans, and without looking for what would fit.
PlanOptions of_part(PlanOptions options, std::int64_t devices) {
  options.part_devices = devices;
  options.usual = false;
  options.name_budget = false;
  options.set.emplace_back("search.sure=false");  // no runner-up is shown
  return options;
}

}  // namespace

Result<DeviceSizes> read_device_sizes(const PlanOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, overrides_of(options));
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  if (options.devices.size() > 1) {
    if (Status status = check_several(options, *host); !status) return status.error();
  }
  Result<std::shared_ptr<ClusterSource>> source = host->create<ClusterSource>("clusters", host->config().cluster.text("plugin"));
  if (!source) return source.error();
  Result<Cluster> cluster = (*source)->describe(host->config().cluster.text("file"));
  if (!cluster) return cluster.error();
  if (options.devices.size() > 1 && !cluster->parts.empty()) return bad_input("--devices with several numbers is of equal devices, and '" + cluster->name + "' has " + parts_text(*cluster) + "; name one number, or one part's file");
  DeviceSizes sizes{std::move(*cluster), {}};
  for (const std::string& text : options.devices) {
    const Result<std::int64_t> devices = read_size(text);
    if (!devices) return devices.error();
    if (const Result<Cluster> part = cluster_part(sizes.cluster, *devices); !part) return add_context("--devices", part.error());
    if (std::ranges::find(sizes.asked, *devices) != sizes.asked.end()) return bad_input("--devices names " + std::to_string(*devices) + " twice; each size gets one row");
    sizes.asked.push_back(*devices);
  }
  std::ranges::sort(sizes.asked);
  return sizes;
}

int run_device_sizes(const PlanOptions& options, const DeviceSizes& sizes, const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan) {
  SizeTable table;
  table.cluster = sizes.cluster;
  table.asked = sizes.asked;
  std::optional<DeviceSpec> profiled = options.profiled;
  std::optional<Error> first_error;
  bool only_errors = true;
  for (const std::int64_t devices : parts_to_plan(sizes.cluster, sizes.asked)) {
    PlanOptions part = of_part(options, devices);
    part.profiled = profiled;
    const Result<PlanOutcome> outcome = plan(part);
    if (!outcome && outcome.error().code != ErrorCode::bad_input) return report_error(outcome.error());
    if (!outcome && !first_error) first_error = outcome.error();
    if (outcome) {
      only_errors = false;
      if (!profiled) profiled = outcome->device;
    }
    add_part(table, devices, outcome);
  }
  if (only_errors) return report_error(*first_error);  // what all of them fail for is no size's
  print(options.format == "json" ? write_json(sizes_json(table)) : sizes_text(table));
  if (!sizes_that_pay(table.trials, table.asked)) return report_error(infeasible("none of the sizes has a plan that fits"));
  return 0;
}

}  // namespace meshwright::host
