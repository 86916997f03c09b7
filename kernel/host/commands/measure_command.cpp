#include "commands/measure_command.h"

#include <unistd.h>

#include <variant>

#include "config/toml_config.h"
#include "files/device_writer.h"
#include "files/json.h"
#include "files/write_file.h"
#include "meshwright/cost.h"
#include "plugins/plugin_host.h"
#include "report/plan_json.h"
#include "report/report_error.h"
#include "report/text_table.h"

namespace meshwright::host {

namespace {

// Nothing but its memory is known, so the profiler has to say the rest.
Cluster this_machine() {
  Cluster cluster;
  cluster.devices_per_node = 1;
  cluster.name = cluster.device.name = "CPU";
  cluster.device.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return cluster;
}

Result<Cluster> cluster_of(const MeasureOptions& options, PluginHost& host) {
  if (options.device.empty()) return this_machine();
  Result<std::shared_ptr<ClusterSource>> source = host.create<ClusterSource>("clusters", "file");
  if (!source) return source.error();
  Result<Cluster> cluster = (*source)->describe(options.device);
  if (!cluster || cluster->devices() == 1) return cluster;
  return bad_input(options.device + ": --device takes the file of one device, such as configs/devices/cpu_core.toml, " +
                   "but this is a cluster of " + std::to_string(cluster->devices()));
}

Json json_of(const ConfigValue& value) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    Json array = Json::Array{};
    for (const std::string& text : *texts) array.push(text);
    return array;
  }
  return std::visit([](const auto& each) -> Json {
    if constexpr (std::is_same_v<std::decay_t<decltype(each)>, std::vector<std::string>>) return nullptr;
    else return Json(each);
  }, value);
}

// "point_seconds = 0.02, ranks = 2": what somebody needs who wants to do it again.
std::string settings_text(const Config& config) {
  std::string text;
  for (const auto& [key, value] : config.values()) {
    std::string written = write_json(json_of(value), true);
    while (!written.empty() && written.back() == '\n') written.pop_back();
    text += (text.empty() ? "" : ", ") + key + " = " + written;
  }
  return text;
}

std::string comment_of(const MeasureOptions& options, const PluginInfo& info, const Config& config) {
  std::string text = "By profilers/" + info.id + " " + info.version + ": " + info.description + ".\n";
  const std::string section = "[" + plugin_section("profilers", info.id) + "] ";
  if (!config.values().empty()) text += section + settings_text(config) + "\n";
  return text + (options.device.empty() ? "The memory is all that this machine has."
                                        : "What that plugin does not say is as in the file that --device named.");
}

std::string text_of(const DeviceSpec& device, const std::string& output) {
  std::vector<std::vector<std::string>> table = {{"figure", "value"}};
  table.push_back({"launch", quantity_text(device.launch_seconds, "s")});
  table.push_back({"elementwise", quantity_text(device.vector_flops_per_second, "FLOP/s")});
  for (const auto& [dtype, rate] : device.matrix_flops_per_second) {
    const double reached = rate * device.matrix_efficiency;
    table.push_back({"products in " + std::string(name(dtype)), quantity_text(reached, "FLOP/s")});
  }
  table.push_back({"memory", quantity_text(device.memory_bytes_per_second * device.memory_efficiency, "B/s")});
  for (const auto& [dtype, curve] : device.product_curves) {
    for (std::size_t i = 0; i < curve.sizes.size(); ++i) {
      table.push_back({"product of " + quantity_text(curve.sizes[i], "FLOP") + " in " + std::string(name(dtype)),
                       quantity_text(curve.rates[i], "FLOP/s")});
    }
  }
  for (std::size_t i = 0; i < device.memory_curve.sizes.size(); ++i) {
    table.push_back({quantity_text(device.memory_curve.sizes[i], "B") + " of memory",
                     quantity_text(device.memory_curve.rates[i], "B/s")});
  }
  return "'" + device.name + "' is written to " + output + "\n" + table_text(table, 1);
}

Status measured(const MeasureOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  const Result<const PluginInfo*> info = host->registry().find("profilers", options.profiler);
  if (!info) return info.error();
  Result<std::shared_ptr<Profiler>> profiler = host->create<Profiler>("profilers", options.profiler);
  if (!profiler) return profiler.error();
  const Result<Config> config = host->plugin_config("profilers", options.profiler);
  if (!config) return config.error();
  Result<Cluster> cluster = cluster_of(options, *host);
  if (!cluster) return cluster.error();
  Result<CostProfile> profile = (*profiler)->profile(*cluster);
  if (!profile) return profile.error();
  cluster->device = std::move(profile->device);
  if (const Status status = validate(*cluster); !status) {
    return bad_input("profiler '" + options.profiler + "' does not say all of a device, and without --device nothing " +
                     "else does: " + status.error().message + "; name a device's file with --device");
  }
  const std::string toml = device_toml(cluster->device, comment_of(options, **info, *config));
  if (Status status = write_file_atomically(options.output, toml); !status) return status;
  if (options.format == "text") {
    print(text_of(cluster->device, options.output));
    return Done{};
  }
  Json settings = Json::Object{};
  for (const auto& [key, value] : config->values()) settings.add(key, json_of(value));
  print(write_json(Json()
                       .add("profiler", options.profiler)
                       .add("version", (*info)->version)
                       .add("settings", std::move(settings))
                       .add("cluster", cluster_json(*cluster))));
  return Done{};
}

}  // namespace

int run_measure(const MeasureOptions& options) {
  const Status status = measured(options);
  return status ? 0 : report_error(status.error());
}

}  // namespace meshwright::host
