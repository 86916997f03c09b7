#include "report/inter_report.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "report/plan_figures.h"
#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

// No plan that was considered is below; 0: nothing says.
double bound_seconds_of(const PlanOutcome& outcome) {
  if (!outcome.stage_search) return outcome.plan ? outcome.plan->step_lower_bound_seconds : 0;
  const double floor = least_floor(outcome.stage_search->trials);
  return std::isfinite(floor) ? floor : 0;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

std::string run_text(const ComparedPlan& row) { return !row.verification ? "not run" : row.verification->equal ? "yes" : "NO"; }

std::string reason_of(const ComparedPlan& row) { return row.error ? row.error->message : row.outcome.refusal; }

}  // namespace

std::string inter_text(const std::vector<ComparedPlan>& rows) {
  std::vector<std::vector<std::string>> cells = {{"inter", "solver", "stages", "schedule", "mesh", "microbatches", "step", "no step below", "peak memory", "whole", "verified"}};
  std::string reasons;
  for (const ComparedPlan& row : rows) {
    if (!row.has_plan()) {
      cells.push_back({row.cut.inter, row.solver, row.error ? "failed" : "no plan", "", "", "", "", "", "", row.error ? "" : seconds_text(row.outcome.phases.total), ""});
      reasons += row.title() + ": " + reason_of(row) + "\n";
      continue;
    }
    const PlanFigures figures = figures_of(row.outcome);
    const double bound = bound_seconds_of(row.outcome);
    cells.push_back({row.cut.inter, row.solver, std::to_string(figures.stages), figures.schedule, figures.meshes, std::to_string(figures.microbatches), milliseconds(figures.step_seconds),
                     bound > 0 ? milliseconds(bound) : "unknown", size_text(figures.peak_bytes), seconds_text(row.outcome.phases.total), run_text(row)});
  }
  return table_text(cells, 5) + "Steps are of one clock. No step below: of all that was considered for the row.\n" + reasons;
}

Json inter_json(const std::vector<ComparedPlan>& rows) {
  Json::Array list;
  for (const ComparedPlan& row : rows) {
    Json json;
    json.add("inter", row.cut.inter).add("solver", row.solver);
    if (!row.error) json.add("whole_seconds", row.outcome.phases.total);
    if (row.has_plan()) {
      const PlanFigures figures = figures_of(row.outcome);
      const double bound = bound_seconds_of(row.outcome);
      json.add("stages", static_cast<std::int64_t>(figures.stages)).add("schedule", figures.schedule.empty() ? Json(nullptr) : Json(figures.schedule)).add("mesh", figures.meshes);
      json.add("microbatches", figures.microbatches).add("step_seconds", figures.step_seconds);
      json.add("step_lower_bound_seconds", bound > 0 ? Json(bound) : Json(nullptr)).add("peak_bytes", figures.peak_bytes);
    } else {
      json.add("status", row.error ? "failed" : "no plan").add("reason", reason_of(row));
    }
    if (row.verification) json.add("verified", row.verification->equal).add("max_relative_error", row.verification->max_relative_error);
    list.push_back(std::move(json));
  }
  return Json().add("inter", std::move(list));
}

}  // namespace meshwright::host
