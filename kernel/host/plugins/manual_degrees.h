// [search] inter = "manual": the degrees of parallelism that a user of Megatron-LM gives, as settings of the search.
#pragma once

#include <string>

#include "config/host_config.h"
#include "meshwright/cluster.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright::host {

// Sets what [inter.manual] says: `pp` stages, each on a mesh of dp/ep x ep x cp x tp; the first two axes shard the batch and nothing else, but that the experts of each layer lie over the second one and tokens travel
// to them; over the third one weights are whole and the batch is not cut, and over the last one every weight that can be is computed with in shards, as Megatron does. What a parameter keeps is whole on each device
// (no ZeRO), unless the user says otherwise.
// Errors: bad_input where the degrees do not multiply to the devices of the cluster, where ep does not divide dp or the experts of a layer or there is no such layer, and for keys of [search] and [cluster] that say
// the same.
Status set_degrees(const HostConfig& config, const Cluster& cluster, const ModelAnalysis& model, Config& search, std::string& mesh);

}  // namespace meshwright::host
