// What the user said on the command line of `meshwright plan`. A text that is "" was not given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/cluster.h"

namespace meshwright::host {

struct PlanOptions {
  std::string model;
  std::string cluster;
  std::string config;
  std::string mesh;           // "2x4"
  std::string memory_budget;  // "40GiB"
  std::string intra;
  std::string output;
  std::string known;             // a plan's file, handed on from a tighter budget
  std::string format = "text";   // or "json"
  std::vector<std::string> set;  // "section.key=value"
  std::vector<std::string> devices;  // "8", "64": sizes of parts of the cluster
  std::int64_t part_devices = 0;     // plan for the first so many devices of the cluster; 0: for all
  std::size_t only_part = 0;         // plan for this part of a cluster of unlike devices alone, counted from 1; 0: for all
  int top = 1;                   // so many of the best distinct plans (distinct_plans.h)
  int node_factor = 1;           // plan for so many times the cluster's nodes
  // Of a plan that only answers whether something fits, false: then it is compared with no other plan, a refusal gives no
  // reasons, and meshes have at most two axes.
  bool explain = true;
  bool usual = true;  // a plan is set beside usual ones
  bool name_budget = true;  // a refusal tries budgets until it can name one that has a plan
  // What a profiler said of the cluster's device for another plan, compared with this one: it is not asked again.
  std::optional<DeviceSpec> profiled = {};
};

// The configuration overrides that the options stand for, in the order in which they apply: `set` first, then the
// options that have a key of their own (--mesh, --memory-budget, --intra, --cluster), because they are more specific.
std::vector<std::string> overrides_of(const PlanOptions& options);

}  // namespace meshwright::host
