#include "commands/compare_command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "commands/plan_verification.h"
#include "config/toml_config.h"
#include "files/json.h"
#include "plan_notes.h"
#include "plugins/pipeline.h"
#include "report/report_error.h"
#include "report/text_table.h"

namespace meshwright::host {

namespace {

struct Row {
  std::string solver;
  PlanOutcome outcome;
  std::optional<Verification> verification;
  std::optional<Error> error;  // the solver's, for which there is neither

  [[nodiscard]] std::string why_no_plan() const { return error ? error->message : outcome.refusal; }
};

Result<PluginHost> open_host(const PlanOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, overrides_of(options));
  if (!tree) return tree.error();
  return PluginHost::open(std::move(*tree));
}

// Each once, and all known: before any of them takes its time.
Status check_names(const CompareOptions& options) {
  Result<PluginHost> host = open_host(options.plan);
  if (!host) return host.error();
  std::set<std::string> seen;
  for (const std::string& solver : options.solvers) {
    if (!seen.insert(solver).second) return bad_input("--intra names '" + solver + "' twice; each solver gets one row");
    if (Result<const PluginInfo*> info = host->registry().find("intra", solver); !info) return info.error();
  }
  return Done{};
}

// `profiled` is what an earlier solver's plan was priced with, so that all of them are compared by one clock.
Result<Row> try_solver(const CompareOptions& options, const std::string& solver,
                       const std::optional<DeviceSpec>& profiled) {
  PlanOptions plan_options = options.plan;
  plan_options.profiled = profiled;
  plan_options.intra = solver;
  plan_options.set.emplace_back("search.sure=false");  // no runner-up is shown
  Result<PluginHost> host = open_host(plan_options);
  if (!host) return host.error();
  if (host->config().search.integer("stages") > 1) return bad_input("`compare` knows plans of one stage so far; leave out \"stages\" in [search]");
  Result<PlanOutcome> outcome = run_pipeline(plan_options, *host);
  if (!outcome) return outcome.error();
  Row row{solver, std::move(*outcome), {}, {}};
  if (!row.outcome.plan || !options.verify) return row;
  Result<ProgramTools> tools = open_tools(*host, *row.outcome.plan);
  if (!tools) return tools.error();
  Result<Verification> verification = verify_plan(*row.outcome.plan, *tools, *host, {});
  if (!verification) return verification.error();
  row.verification = std::move(*verification);
  return row;
}

// What no plan on any of the meshes is below, in its step or in its objective: on each of them the best bound that a solver proved. 0: nothing is proven.
double bound_of(const std::vector<Row>& rows, double MeshTrial::* of_trial) {
  std::map<std::string, double> bounds;
  for (const Row& row : rows) {
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

std::string verified_text(const Row& row) {
  if (!row.verification) return "not run";
  return row.verification->equal ? "yes" : "NO";
}

std::string gap_text(double seconds, double bound) { return bound > 0 ? percent(seconds / bound - 1) : "unknown"; }

std::string table(const std::vector<Row>& rows, double step_bound, double bound) {
  std::vector<std::vector<std::string>> cells = {
      {"solver", "mesh", "status", "step", "gap", "objective", "gap", "peak memory", "search", "verified"}};
  for (const Row& row : rows) {
    char search[32];
    std::snprintf(search, sizeof search, "%.3f s", row.outcome.phases.search);
    if (!row.outcome.plan) {
      cells.push_back({row.solver, "", row.error ? "failed" : "no plan", "", "", "", "", row.error ? "" : search, ""});
      continue;
    }
    const Plan& plan = *row.outcome.plan;
    cells.push_back({row.solver, to_string(plan.mesh), std::string(name(plan.status)), milliseconds(plan.step_seconds),
                     gap_text(plan.step_seconds, step_bound), milliseconds(plan.objective_seconds), gap_text(plan.objective_seconds, bound),
                     size_text(plan.peak_bytes), search, verified_text(row)});
  }
  return table_text(cells, 3);
}

std::string text_of(const std::vector<Row>& rows, double step_bound, double bound) {
  std::string text = table(rows, step_bound, bound);
  const auto add = [&](const char* what, double seconds) {
    if (seconds > 0) text += std::string("No plan's ") + what + " is below " + milliseconds(seconds) + ", by the best bound of these solvers; gaps are above it.\n";
  };
  add("step", step_bound);
  add("objective", bound);
  for (const Row& row : rows) {
    if (!row.outcome.plan) text += row.solver + ": " + row.why_no_plan() + "\n";
  }
  return text;
}

Json json_of(const std::vector<Row>& rows, double step_bound, double bound) {
  Json::Array solvers;
  for (const Row& row : rows) {
    Json json;
    json.add("solver", row.solver);
    if (!row.error) json.add("search_seconds", row.outcome.phases.search);
    if (row.outcome.plan) {
      const Plan& plan = *row.outcome.plan;
      json.add("mesh", to_string(plan.mesh));
      json.add("status", std::string(name(plan.status)));
      json.add("method", plan.method);
      json.add("objective_seconds", plan.objective_seconds);
      json.add("lower_bound_seconds", plan.lower_bound_seconds);
      json.add("step_seconds", plan.step_seconds);
      json.add("step_lower_bound_seconds", plan.step_lower_bound_seconds);
      json.add("peak_bytes", plan.peak_bytes);
      if (row.verification) json.add("verified", row.verification->equal).add("max_relative_error", row.verification->max_relative_error);
    } else {
      json.add("status", row.error ? "failed" : "no plan").add("reason", row.why_no_plan());
    }
    solvers.push_back(std::move(json));
  }
  return Json().add("step_lower_bound_seconds", step_bound).add("lower_bound_seconds", bound).add("solvers", std::move(solvers));
}

}  // namespace

int run_compare(const CompareOptions& options) {
  if (Status status = check_names(options); !status) return report_error(status.error());
  std::vector<Row> rows;
  std::optional<DeviceSpec> profiled;
  for (const std::string& solver : options.solvers) {
    Result<Row> row = try_solver(options, solver, profiled);
    if (row && !profiled) profiled = row->outcome.device;
    rows.push_back(row ? std::move(*row) : Row{solver, {}, {}, row.error()});
  }
  // What all of them fail for is not theirs.
  if (std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.error.has_value(); })) return report_error(*rows[0].error);
  const double step_bound = bound_of(rows, &MeshTrial::step_lower_bound_seconds), bound = bound_of(rows, &MeshTrial::lower_bound_seconds);
  const std::string text = options.plan.format == "json" ? write_json(json_of(rows, step_bound, bound)) : text_of(rows, step_bound, bound);
  std::fwrite(text.data(), 1, text.size(), stdout);
  bool any = false;
  for (const Row& row : rows) {
    any |= row.outcome.plan.has_value();
    if (row.verification && !row.verification->equal) {
      return report_error(internal_error("the plan of '" + row.solver + "' does not compute what one device computes: '" +
                                         row.verification->worst_tensor + "' differs"));
    }
  }
  return any ? 0 : report_error(infeasible("none of the solvers has a plan that fits"));
}

}  // namespace meshwright::host
