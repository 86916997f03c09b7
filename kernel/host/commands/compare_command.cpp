#include "commands/compare_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "commands/plan_verification.h"
#include "config/toml_config.h"
#include "plugins/pipeline.h"
#include "report/compare_report.h"
#include "report/inter_report.h"
#include "report/report_error.h"

namespace meshwright::host {

namespace {

Result<PluginHost> open_host(const PlanOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, overrides_of(options));
  if (!tree) return tree.error();
  return PluginHost::open(std::move(*tree));
}

PlanOptions with_stages(PlanOptions options, std::int64_t stages) {
  options.set.push_back("search.stages=" + std::to_string(stages));
  if (stages == 1) options.set.emplace_back("search.chunks=0");  // those are of several stages
  return options;
}

PlanOptions with_inter(PlanOptions options, const std::string& inter) {
  options.set.push_back("search.inter=\"" + inter + "\"");
  return options;
}

PlanOptions with_cut(PlanOptions options, const AskedCut& cut) {
  if (!cut.inter.empty()) return with_inter(std::move(options), cut.inter);
  options = with_stages(std::move(options), cut.stages);
  if (cut.stages > 1) options.set.push_back("search.schedule=\"" + cut.schedule + "\"");
  return options;
}

// Each once, and all known: before any of them takes its time.
Status check_ids(const PluginHost& host, const char* option, const char* kind, const std::vector<std::string>& ids) {
  std::set<std::string> seen;
  for (const std::string& id : ids) {
    if (!seen.insert(id).second) return bad_input(std::string(option) + " names '" + id + "' twice; each gets one row");
    if (Result<const PluginInfo*> info = host.registry().find(kind, id); !info) return info.error();
  }
  return Done{};
}

// A row for each who chooses the number of stages.
Result<std::vector<AskedCut>> asked_inters(const CompareOptions& options) {
  if (!options.stages.empty() || !options.schedules.empty()) return bad_input("--inter says who chooses the number of stages and the schedule, and --stages and --schedule give them; leave one out");
  std::vector<AskedCut> cuts;
  for (const std::string& inter : options.inters) {
    if (std::ranges::find(cuts, inter, &AskedCut::inter) != cuts.end()) return bad_input("--inter names '" + inter + "' twice; each gets one row");
    Result<PluginHost> host = open_host(with_inter(options.plan, inter));
    if (!host) return host.error();
    if (Status status = check_ids(*host, "--intra", "intra", options.solvers); !status) return status.error();
    cuts.push_back({0, "", inter});
  }
  return cuts;
}

// What the rows are of, in each cut all solvers.
Result<std::vector<AskedCut>> asked_cuts(const CompareOptions& options) {
  if (!options.inters.empty()) return asked_inters(options);
  if (options.solvers.empty()) return bad_input("compare needs solvers, --intra a,b, or --inter for who chooses the number of stages");
  const std::vector<std::int64_t>& numbers = options.stages;
  Result<PluginHost> host = open_host(numbers.empty() ? options.plan : with_stages(options.plan, std::ranges::max(numbers)));
  if (!host) return host.error();
  if (Status status = check_ids(*host, "--intra", "intra", options.solvers); !status) return status.error();
  if (Status status = check_ids(*host, "--schedule", "schedules", options.schedules); !status) return status.error();
  const Config& search = host->config().search;
  std::set<std::int64_t> seen;
  std::vector<AskedCut> cuts;
  for (const std::int64_t stages : numbers.empty() ? std::vector{search.integer("stages")} : numbers) {
    if (!seen.insert(stages).second) return bad_input("--stages names " + std::to_string(stages) + " twice; each gets one row");
    if (stages == 1) cuts.push_back({1, "", ""});
    else if (options.schedules.empty()) cuts.push_back({stages, search.text("schedule"), ""});
    else for (const std::string& schedule : options.schedules) cuts.push_back({stages, schedule, ""});
  }
  if (!options.schedules.empty() && seen == std::set<std::int64_t>{1}) return bad_input("--schedule is of several stages, and there is one; give --stages, or \"stages\" in [search]");
  return cuts;
}

// Those of the option, or the configuration's.
Result<std::vector<std::string>> asked_solvers(const CompareOptions& options) {
  if (!options.solvers.empty()) return options.solvers;
  Result<PluginHost> host = open_host(with_inter(options.plan, options.inters.front()));
  if (!host) return host.error();
  return std::vector{host->config().search.text("intra")};
}

// Runs the plan's programs, whether it is of one stage or of several.
Result<Verification> verify_outcome(const PlanOutcome& outcome, PluginHost& host) {
  Result<ProgramTools> tools = open_tools(host, outcome.plan ? *outcome.plan : outcome.pipeline->stages.front());
  if (!tools) return tools.error();
  return outcome.plan ? verify_plan(*outcome.plan, *tools, host, {}) : verify_plan(*outcome.pipeline, *tools, host, {});
}

// `profiled` is what an earlier solver's plan was priced with, so that all of them are compared by one clock.
Result<ComparedPlan> try_solver(const CompareOptions& options, const std::string& solver, const AskedCut& cut, const std::optional<DeviceSpec>& profiled) {
  PlanOptions plan_options = with_cut(options.plan, cut);
  plan_options.profiled = profiled;
  plan_options.intra = solver;
  plan_options.set.emplace_back("search.sure=false");  // no runner-up is shown
  plan_options.usual = false;
  Result<PluginHost> host = open_host(plan_options);
  if (!host) return host.error();
  Result<PlanOutcome> outcome = run_pipeline(plan_options, *host);
  if (!outcome) return outcome.error();
  ComparedPlan row{solver, cut, std::move(*outcome), {}, {}};
  if (!row.has_plan() || !options.verify) return row;
  Result<Verification> verification = verify_outcome(row.outcome, *host);
  if (!verification) return verification.error();
  row.verification = std::move(*verification);
  return row;
}

}  // namespace

int run_compare(const CompareOptions& options) {
  const Result<std::vector<AskedCut>> cuts = asked_cuts(options);
  if (!cuts) return report_error(cuts.error());
  const Result<std::vector<std::string>> solvers = asked_solvers(options);
  if (!solvers) return report_error(solvers.error());
  std::vector<ComparedPlan> rows;
  std::optional<DeviceSpec> profiled;
  for (const AskedCut& cut : *cuts) {
    for (const std::string& solver : *solvers) {
      Result<ComparedPlan> row = try_solver(options, solver, cut, profiled);
      if (row && !profiled) profiled = row->outcome.device;
      rows.push_back(row ? std::move(*row) : ComparedPlan{solver, cut, {}, {}, row.error()});
    }
  }
  // What all of them fail for is not theirs.
  if (std::ranges::all_of(rows, [](const ComparedPlan& row) { return row.error.has_value(); })) return report_error(*rows[0].error);
  const bool by_inter = !options.inters.empty();
  const std::string text = options.plan.format == "json" ? write_json(by_inter ? inter_json(rows) : compare_json(rows)) : by_inter ? inter_text(rows) : compare_text(rows);
  std::fwrite(text.data(), 1, text.size(), stdout);
  for (const ComparedPlan& row : rows) {
    if (row.verification && !row.verification->equal) {
      return report_error(internal_error("the plan of '" + row.title() + "' does not compute what one device computes: '" + row.verification->worst_tensor + "' differs"));
    }
  }
  if (std::ranges::any_of(rows, &ComparedPlan::has_plan)) return 0;
  return report_error(infeasible("none of the solvers has a plan that fits"));
}

}  // namespace meshwright::host
