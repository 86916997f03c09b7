#include "commands/handed_on.h"

#include <algorithm>
#include <utility>

#include "commands/open_plan.h"
#include "meshwright/memory_profile.h"
#include "meshwright/timeline.h"
#include "report/plan_json.h"
#include "step_search.h"
#include "units.h"

namespace meshwright::host {

namespace {

// What is no matter of the search, as plans are written; "" where both have the same.
std::string difference(const Plan& known, const AskedFor& asked, const std::string& mesh) {
  Plan wanted;
  wanted.model = asked.model;
  wanted.training = asked.training;
  wanted.cluster = asked.cluster;
  const Json one = plan_json(known), other = plan_json(wanted);
  for (const auto& [key, name] : {std::pair("graph", "model"), std::pair("training", "training"), std::pair("cluster", "cluster")}) {
    if (write_json(*one.find(key), true) != write_json(*other.find(key), true)) return name;
  }
  return mesh.empty() || mesh == to_string(known.mesh) ? "" : "mesh";
}

// What its program holds and takes.
Status measure(Plan& plan, const Cluster& cluster, const ProgramTools& tools) {
  Result<Program> program = make_program(plan, tools);
  if (!program) return program.error();
  const Result<Timeline> times = make_timeline(*program, *tools.ops, tools.profile);
  if (!times) return times.error();
  const MemoryProfile memory = memory_profile(*program);
  plan.peak_bytes = memory.peak_bytes;
  plan.memory = memory_account(cluster, *program, memory);
  plan.step_seconds = times->step_seconds;
  plan.forward_seconds = times->forward_seconds;
  return Done{};
}

bool fits(const Plan& plan, const AskedFor& asked) {
  return plan.peak_bytes <= asked.budget_bytes && (!asked.holds_device || plan.memory.total_bytes() <= asked.cluster.device.memory_bytes);
}

// Of what was found in this search, which proves nothing where that is nothing.
void bound_by(const std::optional<Plan>& found, Plan& plan) {
  plan.lower_bound_seconds = found ? std::min(found->lower_bound_seconds, plan.objective_seconds) : 0;
  plan.step_lower_bound_seconds = found ? std::min(found->step_lower_bound_seconds, plan.step_seconds) : 0;
  const bool proven = plan.step_lower_bound_seconds >= (1 - kOptimalGap) * plan.step_seconds;
  plan.status = proven ? SolveStatus::optimal : plan.lower_bound_seconds > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
}

}  // namespace

Status hand_on(const PlanOptions& options, PlanOutcome& outcome) {
  ProgramOptions opening;
  opening.plan = options.known;
  opening.config = options.config;
  opening.set = options.set;
  Result<OpenPlan> opened = open_plan(opening);
  if (!opened) return add_context("--known " + options.known, opened.error());
  Plan& known = opened->plan;
  if (const std::string other = difference(known, outcome.asked, options.mesh); !other.empty()) {
    return bad_input("--known " + options.known + " is a plan of another " + other + " than what is planned for; hand on one that differs in its budget, or leave it out");
  }
  if (Status status = measure(known, outcome.asked.cluster, opened->tools); !status) return status;
  if (!fits(known, outcome.asked) || (outcome.plan && outcome.plan->step_seconds <= known.step_seconds)) return Done{};
  bound_by(outcome.plan, known);
  known.notes.push_back("Handed on from a budget of " + size_text(known.budget_bytes) + " (" + options.known + "): nothing faster was found within " +
                        size_text(outcome.asked.budget_bytes) + ".");
  known.budget_bytes = outcome.asked.budget_bytes;
  known.runner_up.reset();  // which was held against another plan's bound
  if (outcome.plan && options.top > 1) {
    outcome.next.insert(outcome.next.begin(), std::move(*outcome.plan));
    outcome.next.resize(std::min(outcome.next.size(), static_cast<std::size_t>(options.top - 1)));
  }
  outcome.plan = std::move(known);
  outcome.refusal.clear();
  outcome.changes.clear();
  return Done{};
}

}  // namespace meshwright::host
