// A plan as JSON: the file that `plan -o` writes (docs/plan-format.md), and the object that `plan --format json`
// prints. The file holds no timings of the search, so that the same input gives the same bytes.
#pragma once

#include "json.h"
#include "pipeline.h"

namespace meshwright::host {

Json plan_json(const Plan& plan);

// A node's argument that is no tensor.
Json attribute_json(const Attribute& attribute);

// The short object: status, times, memory, mesh, phases, comparisons. With a plan or without.
Json summary_json(const PlanOutcome& outcome);

}  // namespace meshwright::host
