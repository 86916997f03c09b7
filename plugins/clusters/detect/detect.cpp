// Links from what was measured between devices (MAP §4.2, "Cluster Detector"): recorded in a CSV file (recorded_links.h), or now (measure_links.h).
#include <iterator>
#include <string>

#include "detect_links.h"
#include "measure_links.h"
#include "meshwright/cluster.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"devices_per_node", "integer", "devices", "0", "devices of a server, which the numbers alone can't say; 0: servers end where links become four times slower"},
    {"order", "text", "", "\"found\"", "of the devices in the cluster: \"found\", as links join them; \"started\", as they are numbered, whatever links that leaves unused"},
    {"point_seconds", "number", "seconds", "0.02", "how long each figure of a pair or of a group is measured"},
    {"message_bytes", "bytes", "bytes", "\"8MB\"", "size of the large messages that say a bandwidth"},
    {"rounds", "integer", "", "5", "in how many rounds over all pairs that is measured, of which the median counts"}};

constexpr double kLeastPointSeconds = 1e-4, kMostPointSeconds = 60;
constexpr std::int64_t kMostRounds = 1000;

class Detect final : public ClusterSource {
 public:
  Detect(std::int64_t devices_per_node, const MeasureSettings& settings) : devices_per_node_(devices_per_node), settings_(settings) {}

 private:
  // A cluster needs a device, and its ranks the order of the devices: both are in the file that `meshwright detect` writes.
  Result<Cluster> do_describe(const std::string& path) const override {
    return bad_input("cluster plugin 'detect' finds links and no devices: write a cluster's file with `meshwright detect --from " + (path.empty() ? "matrices.csv" : path) +
                     " --device FILE -o cluster.toml`, and plan with that");
  }

  Result<DetectedLinks> do_detect(const std::string& measurements, const std::string& where) const override {
    const Result<RecordedLinks> recorded = read_recorded_links(measurements, where, settings_.as_started ? Directions::slower : Directions::alike);
    if (!recorded) return recorded.error();
    Result<DetectedLinks> links = detect_links(*recorded, devices_per_node_, settings_.as_started);
    if (!links) return add_context(where, links.error());
    return links;
  }

  Result<std::string> do_measure(Transport& transport) const override {
    const Result<MeasuredLinks> links = measure_links(transport, settings_);
    if (!links) return links.error();
    return recorded_text(*links);
  }

  std::int64_t devices_per_node_;
  MeasureSettings settings_;
};

// Empty if the configuration can be used.
std::string what_is_wrong(const Config& config) {
  if (config.integer("devices_per_node") < 0) return "devices_per_node must be at least 1, or 0 for what the links say";
  if (const std::string order = config.text("order"); order != "found" && order != "started") return "order must be \"found\" or \"started\"";
  if (const double seconds = config.number("point_seconds"); !(seconds >= kLeastPointSeconds && seconds <= kMostPointSeconds)) return "point_seconds must be from 0.0001 to 60";
  if (const std::int64_t bytes = config.integer("message_bytes"); bytes < kLeastMessage || bytes > kMostMessage) return "message_bytes must be from 64KiB to 1GiB";
  if (const std::int64_t rounds = config.integer("rounds"); rounds < 1 || rounds > kMostRounds) return "rounds must be from 1 to 1000";
  return "";
}

void* create(const Config& config, Error& error) {
  if (const std::string wrong = what_is_wrong(config); !wrong.empty()) {
    error = bad_input(wrong);
    return nullptr;
  }
  const MeasureSettings settings = {config.number("point_seconds"), config.integer("message_bytes"), config.integer("rounds"), config.text("order") == "started"};
  return static_cast<ClusterSource*>(new Detect(config.integer("devices_per_node"), settings));
}

}  // namespace

MESHWRIGHT_PLUGIN("clusters", "detect", "0.2.0", "Apache-2.0", "Levels of links from what was measured between pairs of devices", nullptr, kSchema, std::size(kSchema), create,
                  destroy_plugin<ClusterSource>)

}  // namespace meshwright
