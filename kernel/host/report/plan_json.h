// A plan as JSON: the file that `plan -o` writes (docs/plan-format.md), and the object that `plan --format json`
// prints. The file holds no timings of the search, so that the same input gives the same bytes.
#pragma once

#include "files/json.h"
#include "plugins/pipeline.h"

namespace meshwright::host {

Json plan_json(const Plan& plan);

// As it stands in a plan: the device with all of its figures and curves, and the levels.
Json cluster_json(const Cluster& cluster);
Json graph_json(const Graph& graph);
Json levels_json(const std::vector<LinkLevel>& levels);

// A node's argument that is no tensor. What JSON could not tell from another kind is an object: a real that is no number
// of JSON's ({"real": "-inf"}), and a list of reals that is empty or has such a one ({"reals": []}).
Json attribute_json(const Attribute& attribute);

// The short object: status, times, memory, mesh, phases, comparisons. With a plan or without.
Json summary_json(const PlanOutcome& outcome);

}  // namespace meshwright::host
