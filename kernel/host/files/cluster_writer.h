// A cluster's file (configs/clusters), written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwright/cluster.h"

namespace meshwright::host {

struct ClusterText {
  std::string comment;  // comes first, each of its lines behind a '#'
  std::string name;
  std::string device;   // the path of its file, as the cluster's file says it
  std::optional<std::int64_t> reserved_bytes = {};
};

// As clusters/file reads it back.
std::string cluster_toml(const DetectedLinks& links, const ClusterText& text);

}  // namespace meshwright::host
