// The configuration of the host itself: the sections that it understands, checked and typed. Plugins' own sections
// ([search.elimination], [ops.matmul] ...) are checked against the plugins' schemas when they are created
// (plugin_host.h).
//
// Every section, key, type, default and allowed value stands in one table in host_config.cpp, in the form in which
// plugins state theirs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_schema.h"
#include "config/config_tree.h"
#include "meshwright/config.h"
#include "meshwright/result.h"
#include "pins.h"

namespace meshwright::host {

// Which keys the configuration gives of those that [search] inter chooses else.
struct GivenKeys {
  bool stages = false, schedule = false;
};

// Each Config holds every key of its section. A text that is "" and a size that is 0 mean "not given".
struct HostConfig {
  Config model;
  Config cluster;  // `file` is resolved: a relative path in a file is relative to that file's folder
  Config search;
  Config train;    // `microbatches` is a number
  // [train] microbatches = "free", or not given where [search] inter is anything but "none" and "manual": one who plans chooses it (free_microbatches.h, stage_grid_planner.h)
  bool free_microbatches = false;
  GivenKeys given;
  Config manual;   // [inter.manual]
  Config joint;    // [inter.joint]
  Config emit;
  std::vector<std::string> plugin_paths;         // resolved likewise
  std::map<std::string, std::string> op_family;  // [ops]: op name -> id of the family that shall serve it
  std::vector<Pin> pins;                         // [pins], by name
};

// Errors: bad_input with the place and the nearest known name or the allowed values.
Result<HostConfig> check_host_config(const ConfigTree& tree);

// The section in which plugin `id` of `kind` is configured: "search.elimination" for intra/elimination.
std::string plugin_section(std::string_view kind, std::string_view id);

// The kinds whose plugins are configured under [`group`.ID]; empty if `group` is no such group.
std::vector<std::string> kinds_of_group(std::string_view group);

// The groups under which plugins are configured: "clusters" under [cluster.ID], "intra" under [search.ID] ...
std::vector<std::string> plugin_groups();

// A host section's schema, for `--help` and documents.
struct HostSection {
  std::string_view name;
  Schema keys;
};
std::span<const HostSection> host_sections();
[[nodiscard]] bool is_host_section(std::string_view name);

}  // namespace meshwright::host
