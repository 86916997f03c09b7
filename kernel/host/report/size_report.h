// What `plan --devices 8,64,128` prints: the best plan at each size, and where adding devices stops paying.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_sizes.h"
#include "files/json.h"
#include "meshwright/cluster.h"
#include "model_flops.h"
#include "plugins/pipeline.h"
#include "report/plan_figures.h"

namespace meshwright::host {

// The best plan that uses all devices of a part.
struct PlannedPart {
  PlanFigures figures;        // of no plan: nothing
  std::optional<double> mfu;  // of the devices of the part
  std::string refusal;        // why there is no plan
};

struct SizeTable {
  Cluster cluster;                  // all of it
  std::vector<std::int64_t> asked;  // ascending
  std::vector<PartTrial> trials;    // ascending
  std::vector<PlannedPart> parts;   // by trial
  // Of the model, as far as a plan says it.
  std::string model;
  std::int64_t batch = 0;
  std::string token_input;    // whole numbers, batch x sequence; "": there is none, and samples are counted
  std::int64_t sequence = 1;  // tokens of a sample
  std::optional<ModelFlops> flops;
  std::string no_mfu;  // why it is unknown
};

// Adds what planning for all devices of a part came to.
void add_part(SizeTable& table, std::int64_t devices, const Result<PlanOutcome>& outcome);

std::string sizes_text(const SizeTable& table);
Json sizes_json(const SizeTable& table);

}  // namespace meshwright::host
