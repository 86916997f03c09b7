// Links from what was measured between devices (MAP §4.2, "Cluster Detector"): recorded in a CSV file (recorded_links.h). Nothing is measured here yet.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "detect_links.h"
#include "meshwright/cluster.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"devices_per_node", "integer", "devices", "0", "devices of a server, which the numbers alone can't say; 0: servers end where links become four times slower"}};

class Detect final : public ClusterSource {
 public:
  explicit Detect(std::int64_t devices_per_node) : devices_per_node_(devices_per_node) {}

 private:
  // A cluster needs a device, and its ranks the order of the devices: both are in the file that `meshwright detect` writes.
  Result<Cluster> do_describe(const std::string& path) const override {
    return bad_input("cluster plugin 'detect' finds links and no devices: write a cluster's file with `meshwright detect --from " + (path.empty() ? "matrices.csv" : path) +
                     " --device FILE -o cluster.toml`, and plan with that");
  }

  Result<DetectedLinks> do_detect(const std::string& path) const override {
    if (path.empty()) {
      return bad_input(
          "links can't be measured here yet, only read: record them on the cluster, for each pair of devices the seconds of a small message and the bytes per second of "
          "large ones (with NCCL's or MPI's benchmarks), in a CSV file with the columns a,b,latency_s,bandwidth_Bps, and name it with --from FILE (docs/configuration.md)");
    }
    if (!std::filesystem::is_regular_file(path)) return bad_input(path + ": no such file");
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) return bad_input(path + ": can't be read, or is empty");
    const Result<RecordedLinks> recorded = read_recorded_links(text.view(), path);
    if (!recorded) return recorded.error();
    Result<DetectedLinks> links = detect_links(*recorded, devices_per_node_);
    if (!links) return add_context(path, links.error());
    return links;
  }

  std::int64_t devices_per_node_;
};

void* create(const Config& config, Error& error) {
  if (config.integer("devices_per_node") >= 0) return static_cast<ClusterSource*>(new Detect(config.integer("devices_per_node")));
  error = bad_input("devices_per_node must be at least 1, or 0 for what the links say");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("clusters", "detect", "0.1.0", "Apache-2.0", "Levels of links from what was measured between pairs of devices", nullptr, kSchema, std::size(kSchema), create,
                  destroy_plugin<ClusterSource>)

}  // namespace meshwright
