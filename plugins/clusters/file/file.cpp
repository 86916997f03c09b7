// A cluster from a TOML file (configs/clusters), which names its device's file (configs/devices). A device's file alone
// is a cluster of that one device.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "foreign_text.h"
#include "foreign_toml.h"
#include "meshwright/cluster.h"
#include "meshwright/plugin.h"
#include "quantity.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

// Reads the keys of one table, remembers the first problem, and refuses keys that nobody asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  std::string text(const std::string& key) { return required<std::string>(key, "a text"); }
  std::int64_t integer(const std::string& key) { return required<std::int64_t>(key, "an integer"); }

  std::int64_t integer_or(const std::string& key, std::int64_t otherwise) {
    return table_.contains(key) ? integer(key) : (known_.insert(key), otherwise);
  }
  bool boolean_or(const std::string& key, bool otherwise) {
    return table_.contains(key) ? required<bool>(key, "true or false") : (known_.insert(key), otherwise);
  }
  double number(const std::string& key) { return required<double>(key, "a number"); }
  double number_or(const std::string& key, double otherwise) { return table_.contains(key) ? number(key) : (known_.insert(key), otherwise); }
  double quantity_or(const std::string& key, const char* unit, const char* example, double otherwise) {
    return table_.contains(key) ? quantity(key, unit, example) : (known_.insert(key), otherwise);
  }
  // Texts like "16MB", each read as a quantity.
  std::vector<double> quantities(const std::string& key, const char* unit, const char* example) {
    known_.insert(key);
    std::vector<double> values;
    const toml::array* found = table_[key].as_array();
    if (!found) fail(key, table_.contains(key) ? "must be a list of texts" : "is missing");
    for (std::size_t i = 0; found && i < found->size(); ++i) {
      const auto written = (*found)[i].value<std::string>();
      const auto value = written ? parse_quantity(*written, unit) : std::nullopt;
      if (!value) fail(key, "must be a list of texts like \"" + std::string(example) + "\"");
      values.push_back(value.value_or(0));
    }
    return values;
  }

  std::optional<CollectiveKind> collective_or_none(const std::string& key) {
    if (!table_.contains(key)) return known_.insert(key), std::nullopt;
    const std::string written = text(key);
    std::string known;
    for (const CollectiveKind kind : kCollectiveKinds) {
      if (written == name(kind)) return kind;
      known += (known.empty() ? "" : ", ") + std::string(name(kind));
    }
    fail(key, "is '" + written + "', but must be one of " + known);
    return std::nullopt;
  }

  void knows(const std::string& key) { known_.insert(key); }

  std::int64_t bytes_or(const std::string& key, std::int64_t otherwise) {
    return table_.contains(key) ? bytes(key) : (knows(key), otherwise);
  }

  // A whole number of bytes that an integer holds; the cluster's own checks come later.
  std::int64_t bytes(const std::string& key) {
    const double value = quantity(key, "B", "80GiB");
    if (value >= 0 && value < 9e18) return static_cast<std::int64_t>(value);
    fail(key, "is no possible size");
    return 0;
  }

  double quantity(const std::string& key, const char* unit, const char* example) {
    const std::string written = text(key);
    const auto value = parse_quantity(written, unit);
    if (!value && !problem_) fail(key, "is '" + written + "', but must be like \"" + example + "\"");
    return value.value_or(0);
  }

  const toml::table* table(const std::string& key) {
    known_.insert(key);
    const toml::table* found = table_[key].as_table();
    if (!found) fail(key, "must be a table");
    return found;
  }
  const toml::array* tables(const std::string& key) {
    known_.insert(key);
    const toml::array* found = table_[key].as_array();
    if (!found || !found->is_homogeneous<toml::table>()) fail(key, "must be tables, written [[" + key + "]]");
    return problem_ ? nullptr : found;
  }

  Status finish() {
    for (const auto& [key, value] : table_) {
      if (!known_.contains(std::string(key.str()))) fail(std::string(key.str()), "is not a known key; known are " + list_known());
    }
    if (problem_) return *problem_;
    return Done{};
  }

 private:
  template <class T>
  T required(const std::string& key, const char* expected) {
    known_.insert(key);
    // A fraction is no integer, and one of 1e308 can't be read as one; an integer is a number.
    const auto value = [&] {
      if constexpr (std::is_same_v<T, std::int64_t>) return table_[key].value_exact<T>();
      else return table_[key].value<T>();
    }();
    if (!value) fail(key, table_.contains(key) ? std::string("must be ") + expected : "is missing");
    return value.value_or(T{});
  }

  void fail(const std::string& key, const std::string& what) {
    if (!problem_) problem_ = bad_input(where_ + ": '" + key + "' " + what);
  }

  std::string list_known() const {
    std::string list;
    for (const std::string& key : known_) list += (list.empty() ? "" : ", ") + key;
    return list;
  }

  const toml::table& table_;
  std::string where_;
  std::set<std::string> known_;
  std::optional<Error> problem_;
};

Result<toml::table> parse(const std::string& path) {
  if (!fs::is_regular_file(path)) return bad_input(path + ": no such file");
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  if (const std::string_view why = why_not_toml(text.view()); !why.empty()) return bad_input(path + ": " + std::string(why));
  toml::parse_result parsed = toml::parse(text.view(), path);
  if (parsed.failed()) {
    return bad_input(path + ":" + std::to_string(parsed.error().source().begin.line) + ": " +
                     std::string(parsed.error().description()));
  }
  return std::move(parsed).table();
}

struct ListKey {
  const char *key, *unit, *example;
};

Status read_rates(const toml::table* table, const std::string& where, const ListKey& sizes, const ListKey& rates, RateCurve& curve) {
  if (!table) return bad_input(where + " must be a table");
  TableReader reader(*table, where);
  curve = {reader.quantities(sizes.key, sizes.unit, sizes.example), reader.quantities(rates.key, rates.unit, rates.example)};
  return reader.finish();
}

Status read_overheads(const toml::table& table, const std::string& where, MemoryOverheads& overheads) {
  TableReader reader(table, where);
  overheads.driver_bytes = reader.bytes_or("driver", 0);
  overheads.context_bytes = reader.bytes_or("context", 0);
  overheads.workspace_bytes = reader.bytes_or("workspace", 0);
  overheads.communicator_bytes = reader.bytes_or("communicator", 0);
  overheads.block_bytes = reader.bytes_or("block", 0);
  overheads.small_segment_bytes = reader.bytes_or("small_segment", 0);
  overheads.medium_segment_bytes = reader.bytes_or("medium_segment", 0);
  overheads.fragmentation = reader.number_or("fragmentation", 0);
  return reader.finish();
}

Result<DeviceSpec> read_device(const toml::table& table, const std::string& path) {
  TableReader reader(table, path);
  DeviceSpec device;
  device.name = reader.text("name");
  device.memory_bytes = reader.bytes("memory");
  device.memory_bytes_per_second = reader.quantity("memory_bandwidth", "B/s", "2039GB/s");
  device.vector_flops_per_second = reader.quantity("vector_flops", "FLOP/s", "19.5TFLOP/s");
  device.launch_seconds = reader.quantity("launch", "s", "4us");
  device.matrix_efficiency = reader.number("matrix_efficiency");
  device.memory_efficiency = reader.number("memory_efficiency");
  device.half_efficiency_flops = reader.quantity_or("half_efficiency", "FLOP", "1GFLOP", 0);
  device.tf32_flops_per_second = reader.quantity_or("tf32_flops", "FLOP/s", "156TFLOP/s", 0);
  device.multiprocessors = reader.integer_or("multiprocessors", 0);
  device.host_launch_seconds = reader.quantity_or("host_launch", "s", "10us", 0);
  device.host_collective_seconds = reader.quantity_or("host_collective", "s", "25us", device.host_launch_seconds);
  device.skew_seconds = reader.quantity_or("skew", "s", "100us", 0);
  device.computing_stretch = reader.number_or("computing_stretch", 1);
  device.communication_stretch = reader.number_or("communication_stretch", 1);
  if (const toml::table* kernels = table.contains("attention") ? reader.table("attention") : nullptr) {
    for (const auto& [key, value] : *kernels) {
      const std::string kernel(key.str()), where = path + ", [attention." + kernel + "]";
      if (!value.is_table()) return bad_input(where + " must be a table, of the kernel of that name");
      TableReader rates(*value.as_table(), where);
      device.attention[kernel] = {rates.number("efficiency"), rates.number_or("half_keys", 0), rates.number_or("half_head", 0), rates.number_or("backward", 1)};
      if (Status status = rates.finish(); !status) return status.error();
    }
  }
  if (const toml::table* overheads = table.contains("memory_overheads") ? reader.table("memory_overheads") : nullptr) {
    if (Status status = read_overheads(*overheads, path + ", [memory_overheads]", device.overheads); !status)
      return status.error();
  }
  if (table.contains("memory_curve")) {
    if (Status status = read_rates(reader.table("memory_curve"), path + ", [memory_curve]", {"bytes", "B", "1MB"}, {"bandwidth", "B/s", "20GB/s"}, device.memory_curve); !status) return status.error();
  }
  if (const toml::table* curves = table.contains("product_curve") ? reader.table("product_curve") : nullptr) {
    for (const auto& [key, value] : *curves) {
      const std::string where = path + ", [product_curve." + std::string(key.str()) + "]";
      const auto dtype = parse_dtype(key.str());
      if (!dtype) return bad_input(where + ": '" + std::string(key.str()) + "' is not a dtype");
      if (Status status = read_rates(value.as_table(), where, {"flops", "FLOP", "1MFLOP"}, {"rates", "FLOP/s", "60GFLOP/s"}, device.product_curves[*dtype]); !status) return status.error();
    }
  }
  if (const toml::table* rates = reader.table("matrix_flops")) {
    TableReader rate_reader(*rates, path + ", [matrix_flops]");
    for (const auto& [key, value] : *rates) {
      const auto dtype = parse_dtype(key.str());
      if (!dtype) return bad_input(path + ", [matrix_flops]: '" + std::string(key.str()) + "' is not a dtype");
      device.matrix_flops_per_second[*dtype] = rate_reader.quantity(std::string(key.str()), "FLOP/s", "312TFLOP/s");
    }
    if (Status status = rate_reader.finish(); !status) return status.error();
  }
  if (Status status = reader.finish(); !status) return status.error();
  return device;
}

Result<LinkLevel> read_level(const toml::table& table, const std::string& where) {
  TableReader reader(table, where);
  LinkLevel level;
  level.name = reader.text("name");
  level.group = reader.integer("group");
  level.bytes_per_second = reader.quantity("bandwidth", "B/s", "200GB/s");
  level.latency_seconds = reader.quantity("latency", "s", "3us");
  level.sharers = reader.integer_or("shared_by", 1);
  level.ganged = reader.boolean_or("ganged", false);
  if (table.contains("measured")) {
    const toml::array* measured = reader.tables("measured");
    for (std::size_t i = 0; measured && i < measured->size(); ++i) {
      TableReader curve(*(*measured)[i].as_table(), where + ", measured " + std::to_string(i + 1));
      level.measured.push_back({curve.integer("devices"), curve.collective_or_none("collective"), curve.quantities("bytes", "B", "16MB"), curve.quantities("bus_bandwidth", "B/s", "126GB/s")});
      if (Status status = curve.finish(); !status) return status.error();
    }
  }
  if (Status status = reader.finish(); !status) return status.error();
  return level;
}

// The cluster of one device that a device's file is by itself.
Result<Cluster> alone(const toml::table& table, const std::string& path) {
  Result<DeviceSpec> device = read_device(table, path);
  if (!device) return device.error();
  Cluster cluster;
  cluster.name = device->name;
  cluster.device = std::move(*device);
  cluster.devices_per_node = 1;
  return cluster;
}

class File final : public ClusterSource {
 private:
  Result<Cluster> do_describe(const std::string& path) const override {
    if (path.empty()) return bad_input("no cluster file: name one with --cluster FILE");
    Result<toml::table> table = parse(path);
    if (!table) return table.error();
    return table->contains("part") ? of_parts(*table, path) : of_equals(*table, path);
  }

  // [[part]]: clusters' files, which one [[level]] joins.
  static Result<Cluster> of_parts(const toml::table& table, const std::string& path) {
    TableReader reader(table, path);
    const std::string name = reader.text("name");
    std::vector<Cluster> parts;
    std::map<std::string, std::string> file_of;  // by name, which is by what a plan and its reports tell parts apart
    if (const toml::array* files = reader.tables("part")) {
      for (const toml::node& node : *files) {
        TableReader part(*node.as_table(), path + ", [[part]] " + std::to_string(parts.size() + 1));
        const std::string file = part.text("cluster");
        if (Status status = part.finish(); !status) return status.error();
        Result<Cluster> cluster = of_part((fs::path(path).parent_path() / file).lexically_normal().string());
        if (!cluster) return add_context(path, cluster.error());
        if (const std::string& first = file_of.try_emplace(cluster->name, file).first->second; first != file) {
          return bad_input(path + ": the parts " + first + " and " + file + " both have the name '" + cluster->name + "', and parts are told apart by their names; rename one");
        }
        parts.push_back(std::move(*cluster));
      }
    }
    const toml::array* levels = reader.tables("level");
    if (Status status = reader.finish(); !status) return status.error();
    if (levels->size() != 1) return bad_input(path + ": one [[level]] joins the parts, but there are " + std::to_string(levels->size()));
    Result<LinkLevel> link = read_level(*levels->front().as_table(), path + ", [[level]] 1");
    if (!link) return link.error();
    return joined(name, std::move(parts), std::move(*link));
  }

  static Result<Cluster> of_part(const std::string& path) {
    const Result<toml::table> table = parse(path);
    if (!table) return table.error();
    if (table->contains("part")) return bad_input(path + ": a part of a cluster has no parts of its own; name these as parts in its place");
    return of_equals(*table, path);
  }

  // Of equal devices, or a device by itself.
  static Result<Cluster> of_equals(const toml::table& table, const std::string& path) {
    if (!table.contains("device") && table.contains("memory_bandwidth")) return alone(table, path);
    TableReader reader(table, path);
    Cluster cluster;
    cluster.name = reader.text("name");
    cluster.nodes = reader.integer("nodes");
    cluster.devices_per_node = reader.integer("devices_per_node");
    const std::string device = reader.text("device");
    // A single device has no links.
    const bool linked = table.contains("level") || cluster.nodes != 1 || cluster.devices_per_node != 1;
    if (const toml::array* levels = linked ? reader.tables("level") : nullptr) {
      for (const toml::node& node : *levels) {
        Result<LinkLevel> level = read_level(*node.as_table(), path + ", [[level]] " + std::to_string(cluster.levels.size() + 1));
        if (!level) return level.error();
        cluster.levels.push_back(std::move(*level));
      }
    }
    // A device that says nothing of its overheads leaves it to the cluster to reserve something for them.
    const bool reserves = table.contains("reserved_bytes");
    if (reserves)
      cluster.reserved_bytes = reader.bytes("reserved_bytes");
    else
      reader.knows("reserved_bytes");
    if (Status status = reader.finish(); !status) return status.error();
    const std::string device_path = (fs::path(path).parent_path() / device).lexically_normal().string();
    const Result<toml::table> device_table = parse(device_path);
    if (!device_table) return add_context(path, device_table.error());
    Result<DeviceSpec> spec = read_device(*device_table, device_path);
    if (!spec) return add_context(path, spec.error());
    cluster.device = std::move(*spec);
    if (!reserves && cluster.device.overheads == MemoryOverheads{}) {
      return bad_input(path +
                       ": 'reserved_bytes' is missing, and the device's file has no [memory_overheads]: say in one of "
                       "them what else its memory holds (\"0B\": nothing)");
    }
    return cluster;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("clusters", "file", "0.1.0", "Apache-2.0", "A cluster from a TOML file", nullptr, nullptr, 0,
                  (create_plugin<ClusterSource, File>), destroy_plugin<ClusterSource>)

}  // namespace meshwright
