#include "commands/detect_command.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/toml_config.h"
#include "files/cluster_writer.h"
#include "files/device_writer.h"
#include "files/json.h"
#include "files/write_file.h"
#include "foreign_text.h"
#include "meshwright/transport.h"
#include "plugins/plugin_host.h"
#include "report/plan_json.h"
#include "report/report_error.h"
#include "report/text_table.h"

namespace meshwright::host {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "detect";
constexpr const char* kNoDevice = "device.toml";
constexpr std::size_t kMostShown = 200;  // bytes of a path

// Of a mesh with an axis for each level, the outermost first: groups along each axis are alike.
std::string mesh_text(const DetectedLinks& links) {
  std::string text;
  std::int64_t inner = 1;
  for (const LinkLevel& level : links.levels) {
    text = std::to_string(level.group / inner) + (text.empty() ? "" : "x") + text;
    inner = level.group;
  }
  return text;
}

// "0 3 1 2"; "": as they were measured.
std::string order_text(const DetectedLinks& links) {
  if (std::ranges::is_sorted(links.order)) return "";
  std::string text;
  for (const std::int64_t device : links.order) text += (text.empty() ? "" : " ") + std::to_string(device);
  return text;
}

std::string slow_text(const SlowLink& slow) {
  const char* unit = slow.latency ? "s" : "B/s";
  return "Slow link " + std::to_string(slow.first) + "-" + std::to_string(slow.second) + " in " + slow.level + ": " + (slow.latency ? "latency" : "bandwidth") + " of " +
         quantity_text(slow.expected, unit) + " expected, " + quantity_text(slow.measured, unit) + " measured";
}

// What the levels don't say, a line each.
std::string remarks(const DetectedLinks& links) {
  std::string text;
  if (const std::string order = order_text(links); !order.empty()) text += "Start ranks in this order: rank 0, 1, 2, ... on the measurement's device " + order + "\n";
  for (const SlowLink& slow : links.slow_links) text += slow_text(slow) + "\n";
  for (const std::string& note : links.notes) text += note + "\n";
  return text;
}

// The device's own memory overheads decide whether the cluster must say what it reserves.
Result<ClusterText> about_device(const DetectOptions& options, PluginHost& host) {
  ClusterText text;
  text.device = kNoDevice;
  if (options.device.empty()) return text;
  Result<std::shared_ptr<ClusterSource>> source = host.create<ClusterSource>("clusters", "file");
  if (!source) return source.error();
  const Result<Cluster> alone = (*source)->describe(options.device);
  if (!alone) return alone.error();
  if (alone->devices() != 1) {
    return bad_input(options.device + ": --device takes the file of one device, such as configs/devices/a100_80gb.toml, but this is a cluster of " + std::to_string(alone->devices()));
  }
  if (alone->device.overheads == MemoryOverheads{}) text.reserved_bytes = alone->reserved_bytes;
  const fs::path device = options.device;
  text.device = device.is_absolute() ? device.string() : fs::proximate(fs::absolute(device), fs::absolute(options.output).parent_path()).string();
  return text;
}

std::string text_of(const DetectedLinks& links, const DetectOptions& options) {
  std::vector<std::vector<std::string>> table = {{"level", "joins", "bandwidth", "latency"}};
  for (const LinkLevel& level : links.levels) {
    table.push_back({level.name, std::to_string(level.group), quantity_text(level.bytes_per_second, "B/s"), quantity_text(level.latency_seconds, "s")});
  }
  std::string text = "'" + options.output + "' is written: " + std::to_string(links.nodes) + " x " + std::to_string(links.devices_per_node) + " devices; all groups are alike on the axes of a mesh of " +
                     mesh_text(links) + "\n" + table_text(table, 1) + remarks(links);
  if (options.device.empty()) text += "It names " + std::string(kNoDevice) + " beside it as its device's file: copy one of configs/devices there, write one with `meshwright measure`, or name one with --device\n";
  return text;
}

Json json_of(const DetectedLinks& links, const DetectOptions& options) {
  Json order = Json::Array{}, slow_links = Json::Array{}, notes = Json::Array{};
  for (const std::int64_t device : links.order) order.push(device);
  for (const SlowLink& slow : links.slow_links) {
    Json one;
    one.add("first", slow.first).add("second", slow.second).add("level", slow.level).add("figure", slow.latency ? "latency_seconds" : "bytes_per_second");
    slow_links.push(one.add("expected", slow.expected).add("measured", slow.measured));
  }
  for (const std::string& note : links.notes) notes.push(note);
  Json json;
  json.add("output", options.output).add("nodes", links.nodes).add("devices_per_node", links.devices_per_node).add("mesh", mesh_text(links)).add("order", std::move(order));
  return json.add("levels", levels_json(links.levels)).add("slow_links", std::move(slow_links)).add("notes", std::move(notes));
}

// What was measured between the devices, as the plugin reads it.
struct Measurements {
  std::string text;
  std::string where;  // in an error's sentence
  std::string name;   // in the file
};

Result<Measurements> read_measurements(const std::string& path) {
  if (!fs::is_regular_file(path)) return bad_input(path + ": no such file");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return bad_input(path + ": can't be read, or is empty");
  return Measurements{text.str(), path, fs::path(path).filename().string()};
}

Status write_cluster(const DetectOptions& options, const ClusterSource& source, const PluginInfo& info, const Measurements& measurements, ClusterText text) {
  const Result<DetectedLinks> links = source.detect(measurements.text, measurements.where);
  if (!links) return links.error();
  text.name = fs::path(options.output).stem().string();
  text.comment = "By clusters/" + info.id + " " + info.version + ", from " + message_line(measurements.name, kMostShown) + ". All groups are alike on the axes of a mesh of " + mesh_text(*links) + ".\n" +
                 remarks(*links);
  if (Status status = write_file_atomically(options.output, cluster_toml(*links, text)); !status) return status;
  print(options.format == "text" ? text_of(*links, options) : write_json(json_of(*links, options)));
  return Done{};
}

// Kept first: numbers that form no cluster are worth a look.
Status keep(const DetectOptions& options, Measurements& measurements) {
  if (options.keep.empty()) return Done{};
  measurements.where = options.keep;
  measurements.name = fs::path(options.keep).filename().string();
  return write_file_atomically(options.keep, measurements.text);
}

// The exit code, on every rank that of rank 0, which alone writes and speaks.
int said_by_first(Transport& transport, const Status& status) {
  const int code = transport.rank() == 0 && !status ? report_error(status.error()) : 0;
  return transport.from_first(code);
}

int measured(const DetectOptions& options, PluginHost& host, const ClusterSource& source, const PluginInfo& info) {
  const Result<const PluginInfo*> found = host.registry().find("transports", options.transport);
  if (!found) {
    return report_error(bad_input(found.error().message + "; 'mpi' is built where CMake finds OpenMPI (Debian: libopenmpi-dev, openmpi-bin). Links are measured without it by " +
                                  "`torchrun -m meshwright.detect`, or read with --from FILE (docs/configuration.md)"));
  }
  const Result<std::shared_ptr<Transport>> made = host.create<Transport>("transports", options.transport);
  if (!made) return report_error(made.error());
  Transport& transport = **made;
  const bool is_first = transport.rank() == 0;
  // What can be refused before links are measured, which takes a while.
  Result<ClusterText> text = is_first ? about_device(options, host) : ClusterText();
  if (const int code = said_by_first(transport, text ? Status(Done{}) : Status(text.error())); code != 0) return code;
  Result<std::string> measurements = source.measure(transport);
  Status status = Done{};
  if (!measurements) status = measurements.error();
  else if (is_first) {
    const std::string name = "what transports/" + options.transport + " measured";
    Measurements all = {std::move(*measurements), name, name};
    status = keep(options, all);
    if (status) status = write_cluster(options, source, info, all, std::move(*text));
  }
  return said_by_first(transport, status);
}

Status from_file(const DetectOptions& options, PluginHost& host, const ClusterSource& source, const PluginInfo& info) {
  const Result<Measurements> measurements = read_measurements(options.from);
  if (!measurements) return measurements.error();
  Result<ClusterText> text = about_device(options, host);
  if (!text) return text.error();
  return write_cluster(options, source, info, *measurements, std::move(*text));
}

}  // namespace

int run_detect(const DetectOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return report_error(tree.error());
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return report_error(host.error());
  const Result<const PluginInfo*> info = host->registry().find("clusters", kPlugin);
  if (!info) return report_error(info.error());
  const Result<std::shared_ptr<ClusterSource>> source = host->create<ClusterSource>("clusters", kPlugin);
  if (!source) return report_error(source.error());
  if (!options.is_recorded) return measured(options, *host, **source, **info);
  const Status status = from_file(options, *host, **source, **info);
  return status ? 0 : report_error(status.error());
}

}  // namespace meshwright::host
