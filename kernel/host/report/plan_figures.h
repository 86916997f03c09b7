// What plans of one stage and of several have in common, for tables in which they stand beside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/pipeline.h"

namespace meshwright::host {

struct PlanFigures {
  std::size_t stages = 0;      // parts of the model
  std::uint32_t groups = 1;    // of devices that have stages of their own
  std::string schedule;        // "" of one stage
  std::int64_t microbatches = 0;
  std::string meshes;          // of the stages, each that is unlike the one before
  double step_seconds = 0;
  std::int64_t peak_bytes = 0;  // of the device that holds most
};

// There must be a plan.
PlanFigures figures_of(const PlanOutcome& outcome);

}  // namespace meshwright::host
