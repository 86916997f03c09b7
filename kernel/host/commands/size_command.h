// `meshwright plan MODEL --devices 8,64,128`: how many devices pay.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/plan_options.h"
#include "meshwright/cluster.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

struct DeviceSizes {
  Cluster cluster;                  // all of it
  std::vector<std::int64_t> asked;  // ascending, each a part of the cluster
};

// What --devices says, held against the cluster. Errors: bad_input, naming the number; for several numbers together with an option that is of one plan; those of reading the configuration
// and the cluster.
Result<DeviceSizes> read_device_sizes(const PlanOptions& options);

// Plans each size and the parts within it, and prints a table. `plan` plans as one call of the command does. The exit code: 3 if no size has a plan that fits.
int run_device_sizes(const PlanOptions& options, const DeviceSizes& sizes, const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan);

}  // namespace meshwright::host
