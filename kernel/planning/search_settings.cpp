#include "search_settings.h"

#include <algorithm>

#include "meshwright/reduce.h"
#include "name_list.h"

namespace meshwright {

namespace {

// "none", "all", "0,2": as a bit mask. `words` are those that the key knows beside numbers.
Result<std::uint32_t> parse_axes(const Config& search, const std::string& key, const Mesh& mesh, const std::string& words = "all, none") {
  const std::string& text = search.text(key);
  if (text == "none") return 0U;
  if (text == "all") return (1U << mesh.rank()) - 1;
  std::uint32_t axes = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string axis = text.substr(at, end - at);
    if (axis.size() != 1 || axis[0] < '0' || axis[0] > '9') {
      return bad_input("\"" + key + "\" in [search] can't be \"" + text + "\": it is " + words + ", or numbers of mesh axes such as 0,2");
    }
    const auto number = static_cast<std::size_t>(axis[0] - '0');
    if (number >= mesh.rank()) {
      const std::string axes_text = mesh.rank() == 0 ? "no axes" : "axes 0 to " + std::to_string(mesh.rank() - 1);
      return bad_input("\"" + key + "\" in [search] names axis " + axis + ", but the mesh " + to_string(mesh) + " has " + axes_text + "; say which mesh with --mesh");
    }
    axes |= 1U << number;
    at = end + 1;
  }
  return axes;
}

// "all", "none", or a list of what is on, as the configuration's check lets it pass.
ReduceOptions reduce_options(const Config& search) {
  const std::string& text = search.text("reduce");
  const std::vector<std::string> names = split_names(text);
  const auto is_on = [&](const char* name) { return text == "all" || std::find(names.begin(), names.end(), name) != names.end(); };
  ReduceOptions options;
  options.consistency = is_on("consistency");
  options.dominance = is_on("dominance");
  options.folding = is_on("contraction");
  return options;
}

Assignment nothing_allowed() {
  Assignment none;
  none.status = SolveStatus::infeasible;
  none.binding = "no strategies of all ops go together, whatever the memory";
  return none;
}

}  // namespace

Result<StrategyFilter> wanted_filter(const Config& search, const Mesh& mesh) {
  StrategyFilter filter;
  const std::string &zero = search.text("zero"), &regather = search.text("regather"), &prefetch = search.text("prefetch");
  if (zero != "free") filter.zero = static_cast<ZeroStage>(zero[0] - '0');
  if (regather != "free") filter.regather = regather == "always";
  if (prefetch != "free") filter.prefetch = prefetch == "always";
  Result<std::uint32_t> zero_axes = parse_axes(search, "zero_axes", mesh), batch_axes = parse_axes(search, "batch_axes", mesh), context_axes = parse_axes(search, "context_axes", mesh),
                        expert_axes = parse_axes(search, "expert_axes", mesh);
  if (!zero_axes) return zero_axes.error();
  if (!batch_axes) return batch_axes.error();
  if (!context_axes) return context_axes.error();
  if (!expert_axes) return expert_axes.error();
  filter.zero_axes = *zero_axes;
  filter.batch_axes = *batch_axes;
  filter.context_axes = *context_axes;
  filter.expert_axes = *expert_axes;
  if (const std::string& weights = search.text("weights"); weights == "sharded") {
    filter.sharded_weight_axes = ((1U << mesh.rank()) - 1) & ~(filter.batch_axes | filter.context_axes);
  } else if (weights != "free") {
    const Result<std::uint32_t> weight_axes = parse_axes(search, "weights", mesh, "free, sharded");
    if (!weight_axes) return weight_axes.error();
    filter.sharded_weight_axes = *weight_axes;
  }
  return filter;
}

Config with_batch_first(Config search) {
  const std::string axes = search.text("batch_axes");
  if (axes == "none") search.set("batch_axes", std::string("0"));
  else if (axes != "all" && axes.find('0') == std::string::npos) search.set("batch_axes", "0," + axes);
  return search;
}

SearchLimits limits_of(const Config& search, Effort effort) {
  SearchLimits limits;
  limits.work_limit = std::min(search.integer("work_limit"), effort.most_work);
  limits.deadline_seconds = search.number("deadline_seconds");
  limits.gap = effort.gap;
  return limits;
}

Result<Assignment> solve_problem(const IntraSolver& solver, const ModelProblem& model, std::int64_t budget, const Config& search, Effort effort) {
  const StrategySpace& space = model.problem.space;
  const SearchLimits limits = limits_of(search, effort);
  const std::int64_t budgets[] = {budget};
  if (solver.reads_model()) {
    Result<std::vector<Assignment>> answers = solver.solve_model(model, budgets, limits);
    if (!answers) return answers.error();
    // Such solvers try some plans and prove nothing; the reduction may.
    const bool open = answers->front().choice.empty() && answers->front().status != SolveStatus::infeasible;
    return open && reduce(space).infeasible ? nothing_allowed() : std::move(answers->front());
  }
  const Reduction reduction = reduce(space, reduce_options(search));
  if (reduction.infeasible) return nothing_allowed();
  Result<std::vector<Assignment>> answers = solver.solve(reduction.space, budgets, limits);
  if (!answers) return answers.error();
  return reduction.lift(space, std::move(answers->front()));
}

}  // namespace meshwright
