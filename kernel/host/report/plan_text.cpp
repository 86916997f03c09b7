#include "report/plan_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "distinct_plans.h"
#include "plan_notes.h"
#include "report/memory_text.h"
#include "report/module_table.h"
#include "report/pipeline_text.h"
#include "report/stage_search_report.h"
#include "report/sureness.h"
#include "report/text_table.h"

namespace meshwright::host {

namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  va_list arguments, copy;
  va_start(arguments, pattern);
  va_copy(copy, arguments);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, pattern, copy)), '\0');
  va_end(copy);
  std::vsnprintf(text.data(), text.size() + 1, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string mebibytes(std::int64_t bytes) {
  return bytes == 0 ? "" : format("%.1f MiB", static_cast<double>(bytes) / 1048576.0);
}

std::string status_text(const Plan& plan) {
  std::string text{name(plan.status)};
  const double step_bound = plan.step_lower_bound_seconds, bound = plan.lower_bound_seconds;
  if (step_bound > 0 && step_bound < plan.step_seconds) text += format(", at most %.2f %% above the best step", 100 * (plan.step_seconds / step_bound - 1));
  else if (step_bound <= 0 && plan.status == SolveStatus::optimal) text += " by the objective, nothing says how far above the best step";
  else if (step_bound <= 0 && bound > 0) text += format(", at most %.2f %% above the best objective", 100 * (plan.objective_seconds / bound - 1));
  else if (step_bound <= 0) text += ", nothing says how far above the best";
  return text + " (" + plan.method + ")";
}

std::string modules_text(const Plan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"module", "weights", "in line", "beside", "compute", "communication", "saved", "state"}};
  ModuleRow total;
  for (const ModuleRow& row : module_table(plan)) {
    rows.push_back({row.module, row.weights, row.in_line, row.beside, milliseconds(row.compute_seconds),
                    row.communication_seconds > 0 ? milliseconds(row.communication_seconds) : "",
                    mebibytes(row.saved_bytes), mebibytes(row.state_bytes)});
    total.compute_seconds += row.compute_seconds;
    total.communication_seconds += row.communication_seconds;
    total.saved_bytes += row.saved_bytes;
    total.state_bytes += row.state_bytes;
  }
  rows.push_back({"total", "", "", "", milliseconds(total.compute_seconds), milliseconds(total.communication_seconds),
                  mebibytes(total.saved_bytes), mebibytes(total.state_bytes)});
  return table_text(rows, 4) + "  " + kCollectiveLegend + "\n";
}

std::string trials_text(const PlanOutcome& outcome) {
  std::vector<std::vector<std::string>> rows = {{"mesh", "status", "step", "no step below", "objective", "peak memory"}};
  for (const MeshTrial& trial : outcome.trials) {
    const bool won = outcome.plan && trial.mesh == to_string(outcome.plan->mesh);
    const bool found = trial.objective_seconds > 0;
    const bool proven = trial.status == SolveStatus::infeasible;
    rows.push_back({trial.mesh + (won ? " *" : ""), found || proven ? std::string(name(trial.status)) : "none found",
                    found ? milliseconds(trial.step_seconds) : "", trial.step_lower_bound_seconds > 0 ? milliseconds(trial.step_lower_bound_seconds) : "",
                    found ? milliseconds(trial.objective_seconds) : "", found ? size_text(trial.peak_bytes) : ""});
  }
  return "Meshes tried (* won):\n" + table_text(rows, 2);
}

std::string comparisons_text(const PlanOutcome& outcome) {
  std::vector<std::vector<std::string>> rows = {{"plan", "step", "objective", "peak memory", ""}};
  rows.push_back({"this plan", milliseconds(outcome.plan->step_seconds), milliseconds(outcome.plan->objective_seconds), size_text(outcome.plan->peak_bytes), ""});
  for (const Comparison& comparison : outcome.comparisons) {
    const bool known = comparison.objective_seconds.has_value();
    rows.push_back({comparison.name, known ? milliseconds(comparison.step_seconds) : "-", known ? milliseconds(*comparison.objective_seconds) : "-",
                    known ? size_text(comparison.peak_bytes) : "-", comparison.note});
  }
  return "On the same mesh and cost model:\n" + table_text(rows, 1);
}

// Nothing, if only one plan was asked for.
std::string ranking_text(const PlanOutcome& outcome) {
  if (outcome.next.empty()) return outcome.may_have_more ? "No second plan was found before the search for it was given up.\n\n" : "";
  constexpr std::size_t kMostTold = 3;
  std::vector<std::vector<std::string>> rows = {{"plan", "mesh", "what it does otherwise than the first", "step", "objective", "peak memory"}};
  std::size_t number = 0;
  const auto add = [&](const Plan& plan) {
    rows.push_back({std::to_string(++number), to_string(plan.mesh), "", milliseconds(plan.step_seconds), milliseconds(plan.objective_seconds),
                    size_text(plan.peak_bytes)});
  };
  add(*outcome.plan);
  for (const Plan& plan : outcome.next) {
    add(plan);
    if (to_string(plan.mesh) != to_string(outcome.plan->mesh)) continue;
    const std::vector<std::string> all = differences(plan, *outcome.plan);
    for (std::size_t i = 0; i < std::min(all.size(), kMostTold); ++i) {
      if (i > 0) rows.push_back({"", "", "", "", "", ""});
      rows.back()[2] = all[i];
    }
    if (all.size() > kMostTold) rows.push_back({"", "", "and " + std::to_string(all.size() - kMostTold) + " more", "", "", ""});
  }
  return "The best distinct plans, by simulated step:\n" + table_text(rows, 3) +
         (outcome.may_have_more ? "  There may be more: the search for them was given up.\n\n" : "\n");
}

std::string axes_text(const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < mesh.rank(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    text += format("%saxis %zu: %lld devices, %.1f GB/s, %.1f us (%s)", i > 0 ? "; " : "", i,
                   static_cast<long long>(axis.size), 1e-9 / axis.beta_seconds_per_byte, axis.alpha_seconds * 1e6,
                   axis.slowest_link.c_str());
  }
  return text;
}

}  // namespace

std::string outcome_text(const PlanOutcome& outcome) {
  if (outcome.pipeline) return pipeline_text(outcome);
  if (!outcome.plan && outcome.stage_search) return stage_search_text(outcome);
  if (!outcome.plan) return trials_text(outcome);
  const Plan& plan = *outcome.plan;
  std::string text = plan.graph().name + " on " + plan.cluster.name + " (" + std::to_string(plan.cluster.devices()) + " x " +
                     plan.cluster.device.name + "), mesh " + to_string(plan.mesh) + "\n  " + axes_text(plan.mesh) + "\n\n";
  text += modules_text(plan) + "\n";
  text += trials_text(outcome) + "\n" + ranking_text(outcome) + (outcome.stage_search ? stage_search_text(outcome) : comparisons_text(outcome) + "\n");
  if (const std::string sure = sureness_text(plan); !sure.empty()) text += sure + "\n";
  text += "Status       " + status_text(plan) + "\n";
  text += "Step         " + milliseconds(plan.step_seconds) + " (simulated, parameters' communication beside computing)";
  text += plan.step_lower_bound_seconds > 0 ? "; no plan in this space is below " + milliseconds(plan.step_lower_bound_seconds) + "\n" : "\n";
  text += "Objective    " + milliseconds(plan.objective_seconds) + ", the sum that the search minimises first; no plan is below " +
          milliseconds(plan.lower_bound_seconds) + "\n";
  text += "Memory       " + size_text(plan.peak_bytes) + " of " + size_text(plan.budget_bytes) + " per device\n";
  text += format("Search       %zu variables, %zu strategies; strategies %.3f s, search %.3f s, whole %.3f s\n",
                 outcome.variables, outcome.strategies, outcome.phases.strategies, outcome.phases.search, outcome.phases.total);
  for (const std::string& note : plan.notes) text += "Note         " + note + "\n";
  if (const std::string account = account_text(plan.memory, plan.cluster.device.memory_bytes); !account.empty())
    text += "\n" + account;
  return text;
}

}  // namespace meshwright::host
