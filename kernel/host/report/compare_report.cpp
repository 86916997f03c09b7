#include "report/compare_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "report/pipeline_json.h"
#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

using ComparedRows = std::vector<ComparedPlan>;

// What no plan of one stage on any of the meshes is below, in its step or in its objective: on each of them the best bound that a solver proved. 0: nothing is proven.
double bound_of(const ComparedRows& rows, double MeshTrial::* of_trial) {
  std::map<std::string, double> bounds;
  for (const ComparedPlan& row : rows) {
    for (const MeshTrial& trial : row.outcome.trials) {
      const bool impossible = trial.status == SolveStatus::infeasible;
      double& bound = bounds[trial.mesh];
      bound = std::max(bound, impossible ? std::numeric_limits<double>::infinity() : trial.*of_trial);
    }
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [mesh, bound] : bounds) least = std::min(least, bound);
  return std::isfinite(least) ? least : 0;
}

bool in_one_stage(const ComparedPlan& row) { return row.cut.stages == 1; }

std::string why_none(const ComparedPlan& row) { return row.error ? row.error->message : row.outcome.refusal; }
std::string missing_text(const ComparedPlan& row) { return row.error ? "failed" : "no plan"; }

std::string verified_text(const ComparedPlan& row) {
  if (!row.verification) return "not run";
  return row.verification->equal ? "yes" : "NO";
}

std::string search_text(const ComparedPlan& row) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", row.outcome.phases.search);
  return row.error ? "" : text;
}

std::string gap_text(double seconds, double bound) { return bound > 0 ? percent(seconds / bound - 1) : "unknown"; }

// Of each stage, or once if all of them have it.
std::string meshes_text(const PipelinePlan& pipeline) {
  std::string all, first = to_string(pipeline.stages.front().mesh);
  bool alike = true;
  for (const Plan& plan : pipeline.stages) {
    const std::string mesh = to_string(plan.mesh);
    alike = alike && mesh == first;
    all += (all.empty() ? "" : ", ") + mesh;
  }
  return alike ? first : all;
}

SolveStatus least_sure(const PipelinePlan& pipeline) { return std::ranges::max_element(pipeline.stages, {}, &Plan::status)->status; }

std::string table_of_solvers(const ComparedRows& rows, double step_bound, double bound) {
  std::vector<std::vector<std::string>> cells = {
      {"solver", "mesh", "status", "step", "gap", "objective", "gap", "peak memory", "search", "verified"}};
  for (const ComparedPlan& row : rows) {
    if (!row.has_plan()) {
      cells.push_back({row.solver, "", missing_text(row), "", "", "", "", "", search_text(row), ""});
      continue;
    }
    const Plan& plan = *row.outcome.plan;
    cells.push_back({row.solver, to_string(plan.mesh), std::string(name(plan.status)), milliseconds(plan.step_seconds),
                     gap_text(plan.step_seconds, step_bound), milliseconds(plan.objective_seconds), gap_text(plan.objective_seconds, bound),
                     size_text(plan.peak_bytes), search_text(row), verified_text(row)});
  }
  return table_text(cells, 3);
}

std::string table_of_cuts(const ComparedRows& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"solver", "stages", "schedule", "mesh", "status", "step", "bubble", "peak memory", "search", "verified"}};
  for (const ComparedPlan& row : rows) {
    std::vector<std::string>& line = cells.emplace_back(std::vector<std::string>{row.solver, std::to_string(row.cut.stages), row.cut.schedule});
    const auto add = [&](std::initializer_list<std::string> more) { line.insert(line.end(), more); };
    if (!row.has_plan()) {
      add({"", missing_text(row), "", "", "", search_text(row), ""});
    } else if (const std::optional<Plan>& plan = row.outcome.plan) {
      add({to_string(plan->mesh), std::string(name(plan->status)), milliseconds(plan->step_seconds), "", size_text(plan->peak_bytes), search_text(row), verified_text(row)});
    } else {
      const PipelinePlan& pipeline = *row.outcome.pipeline;
      add({meshes_text(pipeline), std::string(name(least_sure(pipeline))), milliseconds(pipeline.step_seconds), percent(pipeline.bubble), size_text(std::ranges::max(pipeline.peak_bytes)),
           search_text(row), verified_text(row)});
    }
  }
  return table_text(cells, 5);
}

Json stage_json(const Plan& plan, double busy_seconds) {
  Json json;
  json.add("mesh", to_string(plan.mesh)).add("status", name(plan.status)).add("method", plan.method);
  json.add("objective_seconds", plan.objective_seconds).add("lower_bound_seconds", plan.lower_bound_seconds);
  return json.add("step_share_seconds", busy_seconds).add("peak_bytes", plan.peak_bytes);
}

void add_figures(Json& json, const Plan& plan) {
  json.add("mesh", to_string(plan.mesh));
  json.add("status", name(plan.status)).add("method", plan.method);
  json.add("objective_seconds", plan.objective_seconds).add("lower_bound_seconds", plan.lower_bound_seconds);
  json.add("step_seconds", plan.step_seconds).add("step_lower_bound_seconds", plan.step_lower_bound_seconds);
  json.add("peak_bytes", plan.peak_bytes);
}

void add_figures(Json& json, const PipelinePlan& pipeline) {
  json.add("status", name(least_sure(pipeline)));
  add_pipeline_step(json, pipeline);
  json.add("peak_bytes", std::ranges::max(pipeline.peak_bytes));
  Json::Array stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) stages.push_back(stage_json(pipeline.stages[s], pipeline.busy_seconds[s]));
  json.add("stages", std::move(stages));
}

}  // namespace

std::string ComparedPlan::title() const {
  if (!cut.inter.empty()) return cut.inter + ", " + solver;
  if (cut.stages == 1) return solver;
  return solver + ", " + std::to_string(cut.stages) + " stages by " + cut.schedule;
}

std::string compare_text(const ComparedRows& rows) {
  const double step_bound = bound_of(rows, &MeshTrial::step_lower_bound_seconds), bound = bound_of(rows, &MeshTrial::lower_bound_seconds);
  std::string text;
  if (std::ranges::all_of(rows, in_one_stage)) {
    text = table_of_solvers(rows, step_bound, bound);
    const auto add = [&](const char* what, double seconds) {
      if (seconds > 0) text += std::string("No plan's ") + what + " is below " + milliseconds(seconds) + ", by the best bound of these solvers; gaps are above it.\n";
    };
    add("step", step_bound);
    add("objective", bound);
  } else {
    text = table_of_cuts(rows);
    text += "The step of several stages has no bound: each stage's plan has its own, and the status is that of the least sure of them.\n";
    if (step_bound > 0) text += "No plan of one stage has a step below " + milliseconds(step_bound) + ", by the best bound of these solvers.\n";
  }
  for (const ComparedPlan& row : rows) {
    if (!row.has_plan()) text += row.title() + ": " + why_none(row) + "\n";
  }
  return text;
}

Json compare_json(const ComparedRows& rows) {
  const bool names_cuts = !std::ranges::all_of(rows, in_one_stage);
  Json::Array solvers;
  for (const ComparedPlan& row : rows) {
    Json json;
    json.add("solver", row.solver);
    if (names_cuts) json.add("asked_stages", row.cut.stages);
    if (!in_one_stage(row)) json.add("asked_schedule", row.cut.schedule);
    if (!row.error) json.add("search_seconds", row.outcome.phases.search);
    if (row.outcome.plan) add_figures(json, *row.outcome.plan);
    if (row.outcome.pipeline) add_figures(json, *row.outcome.pipeline);
    if (!row.has_plan()) json.add("status", missing_text(row)).add("reason", why_none(row));
    if (row.verification) json.add("verified", row.verification->equal).add("max_relative_error", row.verification->max_relative_error);
    solvers.push_back(std::move(json));
  }
  return Json()
      .add("step_lower_bound_seconds", bound_of(rows, &MeshTrial::step_lower_bound_seconds))
      .add("lower_bound_seconds", bound_of(rows, &MeshTrial::lower_bound_seconds))
      .add("solvers", std::move(solvers));
}

}  // namespace meshwright::host
