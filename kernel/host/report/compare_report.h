// What `compare` prints: a row for each solver, and for each cut into stages where several are asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/json.h"
#include "plugins/pipeline.h"
#include "verify.h"

namespace meshwright::host {

// How a model is cut into pipeline stages.
struct AskedCut {
  std::int64_t stages = 1;
  std::string schedule;  // "" of one stage
  std::string inter;     // "grid": who chooses both; "": they are asked for
};

struct ComparedPlan {
  std::string solver;
  AskedCut cut;
  PlanOutcome outcome;
  std::optional<Verification> verification;  // nothing if it was not run
  std::optional<Error> error;                // the solver's, or that of the cut; then there is neither

  [[nodiscard]] bool has_plan() const { return outcome.plan || outcome.pipeline; }
  // "elimination", "elimination, 4 stages by gpipe"
  [[nodiscard]] std::string title() const;
};

// Bounds and gaps are of plans of one stage; a row of several has none, and the status of its least sure stage.
std::string compare_text(const std::vector<ComparedPlan>& rows);
Json compare_json(const std::vector<ComparedPlan>& rows);

}  // namespace meshwright::host
