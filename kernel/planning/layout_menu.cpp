#include "layout_menu.h"

#include <algorithm>
#include <utility>

#include "meshwright/cost.h"
#include "meshwright/recompute.h"
#include "search_settings.h"

namespace meshwright {

namespace {

constexpr int kMostAskedOfLayouts = 4;  // how often less is asked for, until a plan's program fits

void add_prime_factors(std::int64_t number, std::vector<std::int64_t>& factors) {
  for (std::int64_t factor = 2; number > 1; factor = factor * factor > number ? number : factor + 1) {
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  }
}

// "0,1,2" of axes [begin, end); "none".
std::string axes_between(std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t axis = begin; axis < end; ++axis) text += (text.empty() ? "" : ",") + std::to_string(axis);
  return text.empty() ? "none" : text;
}

std::int64_t product(const std::vector<std::int64_t>& shape, std::size_t begin, std::size_t end) {
  std::int64_t devices = 1;
  for (std::size_t axis = begin; axis < end; ++axis) devices *= shape[axis];
  return devices;
}

bool is_same_choice(const Strategy& one, const Strategy& other) {
  if (one.choice.index() != other.choice.index()) return false;
  if (const ParameterStrategy* a = one.parameter()) {
    const ParameterStrategy& b = *other.parameter();
    return a->stored == b.stored && a->compute == b.compute && a->state == b.state && a->zero == b.zero && a->regather == b.regather && a->prefetch == b.prefetch;
  }
  if (const NodeStrategy* a = one.node()) return a->call == other.node()->call;
  if (const auto* a = std::get_if<ForkStrategy>(&one.choice)) return a->layouts == std::get<ForkStrategy>(other.choice).layouts;
  return std::get<OutputStrategy>(one.choice).layouts == std::get<OutputStrategy>(other.choice).layouts;
}

class LayoutPlanner {
 public:
  LayoutPlanner(const PlanningContext& stage, Mesh mesh, const FittedSolver& solver, const Config& search, const std::vector<Pin>& pins, const LayoutRecipe& recipe)
      : stage_(stage), mesh_(std::move(mesh)), solver_(solver), search_(search), pins_(pins), recipe_(recipe) {
    find_first_readers();
  }

  Result<std::optional<FittedPlan>> run(std::int64_t budget) {
    const Result<StrategyFilter> free = wanted_filter(free_search(), mesh_);
    if (!free) return free.error();
    ProblemInput input{stage_, mesh_, *free};
    input.recomputed = recomputed();
    Result<Problem> problem = build_pinned(input, pins_);
    if (!problem) return nothing_if_infeasible(problem.error());
    const Result<bool> restricted = restrict_all(input, *problem);
    if (!restricted) return restricted.error();
    if (!*restricted) return std::optional<FittedPlan>();
    return fitting(input, *problem, budget);
  }

 private:
  static Result<std::optional<FittedPlan>> nothing_if_infeasible(const Error& error) {
    if (error.code == ErrorCode::infeasible) return std::optional<FittedPlan>();
    return error;
  }

  // What layouts say is free.
  [[nodiscard]] Config free_search() const {
    Config search = search_;
    for (const char* key : {"batch_axes", "context_axes", "expert_axes"}) search.set(key, std::string("none"));
    for (const char* key : {"weights", "zero"}) search.set(key, std::string("free"));
    search.set("zero_axes", std::string("all"));
    return search;
  }

  [[nodiscard]] const MenuLayout* layout_of(NodeId node) const {
    const auto found = recipe_.layout_of.find(stage_.graph().nodes[node].name);
    return found == recipe_.layout_of.end() ? nullptr : &recipe_.layouts[found->second];
  }

  [[nodiscard]] bool is_used(const MenuLayout& layout) const {
    for (NodeId id = 0; id < stage_.graph().nodes.size(); ++id) {
      if (const MenuLayout* here = layout_of(id); here != nullptr && *here == layout) return true;
    }
    return false;
  }

  [[nodiscard]] std::vector<std::string> recomputed() const {
    const Graph& graph = stage_.graph();
    const Result<std::vector<bool>> all = ops_named(stage_.model, recomputable_blocks(stage_.model));
    std::vector<bool> ops(graph.nodes.size(), false);
    for (NodeId id = 0; all && id < graph.nodes.size(); ++id) {
      const MenuLayout* layout = layout_of(id);
      ops[id] = (*all)[id] && layout != nullptr && layout->again;
    }
    return recomputed_names(stage_.model, ops);
  }

  void find_first_readers() {
    const Graph& graph = stage_.graph();
    first_reader_.assign(graph.values.size(), kNoId);
    for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
      for (const Operand& operand : graph.nodes[id].operands) first_reader_[operand.value] = id;
    }
  }

  [[nodiscard]] NodeId node_of(const Variable& variable) const {
    if (variable.kind == VariableKind::node) return variable.node;
    const NodeId producer = stage_.graph().values[variable.value].producer;
    return producer != kNoId ? producer : first_reader_[variable.value];
  }

  // False where a layout leaves an op without a strategy.
  Result<bool> restrict_all(const ProblemInput& input, Problem& problem) const {
    for (const MenuLayout& layout : recipe_.layouts) {
      if (!is_used(layout)) continue;
      const Result<StrategyFilter> filter = wanted_filter(search_of_layout(free_search(), layout, mesh_.rank()), mesh_);
      if (!filter) return filter.error();
      ProblemInput given = input;
      given.filter = *filter;
      const Result<Problem> of_layout = build_pinned(given, pins_);
      if (!of_layout && of_layout.error().code == ErrorCode::infeasible) return false;
      if (!of_layout) return of_layout.error();
      restrict_to(layout, *of_layout, problem);
    }
    return true;
  }

  // Forbids the strategies that the layout's problem does not have, of the variables that have this layout.
  void restrict_to(const MenuLayout& layout, const Problem& of_layout, Problem& problem) const {
    for (std::size_t i = 0; i < problem.variables.size(); ++i) {
      const NodeId node = node_of(problem.variables[i]);
      const MenuLayout* wanted = node == kNoId ? nullptr : layout_of(node);
      if (wanted == nullptr || *wanted != layout) continue;
      const std::vector<Strategy>& left = of_layout.variables[i].set->strategies;
      const std::vector<Strategy>& strategies = problem.variables[i].set->strategies;
      for (std::size_t s = 0; s < strategies.size(); ++s) {
        const auto is_it = [&](const Strategy& strategy) { return is_same_choice(strategy, strategies[s]); };
        if (std::ranges::none_of(left, is_it)) problem.space.nodes[i].costs[s] = kForbidden;
      }
    }
  }

  // The best whose program fits: less is asked for as its program holds more than the search's terms say.
  Result<std::optional<FittedPlan>> fitting(const ProblemInput& input, Problem& problem, std::int64_t budget) const {
    std::int64_t asked = budget;
    for (int i = 0; i < kMostAskedOfLayouts && asked > 0; ++i) {
      Result<Assignment> answer = solver_.assign(input, problem, asked);
      if (!answer) return answer.error();
      if (answer->choice.empty()) break;
      const std::int64_t counted = answer->peak_bytes;
      answer->status = SolveStatus::heuristic;  // of these layouts
      answer->lower_bound = 0;
      Result<FittedPlan> fitted = solver_.fit(input, problem, std::move(*answer), budget);
      if (!fitted) return fitted.error();
      if (!fitted->no_program.empty()) break;
      const std::int64_t over = solver_.excess_bytes(fitted->plan, budget);
      if (over <= 0) return std::optional(std::move(*fitted));
      asked = std::min(asked, counted) - over;
    }
    return std::optional<FittedPlan>();
  }

  const PlanningContext& stage_;
  const Mesh mesh_;
  const FittedSolver& solver_;
  const Config& search_;
  const std::vector<Pin>& pins_;
  const LayoutRecipe& recipe_;
  std::vector<NodeId> first_reader_;  // by value
};

}  // namespace

std::vector<std::int64_t> menu_shape(const Cluster& stage) {
  std::vector<std::int64_t> shape;
  add_prime_factors(stage.nodes, shape);
  add_prime_factors(stage.devices_per_node, shape);
  return shape;
}

std::vector<MenuLayout> menu_layouts(std::size_t axes, const Config& search) {
  const std::string& recompute = search.text("recompute");
  std::vector<MenuLayout> layouts;
  for (const bool again : {false, true}) {
    if (again ? recompute == "none" : recompute == "all") continue;
    for (std::size_t data = 0; data <= axes; ++data) {
      layouts.push_back({data, false, again});
      if (data > 0) layouts.push_back({data, true, again});
    }
  }
  return layouts;
}

std::string to_string(const MenuLayout& layout, const std::vector<std::int64_t>& shape) {
  const std::int64_t data = product(shape, 0, layout.data_axes), tensor = product(shape, layout.data_axes, shape.size());
  std::string text;
  if (data > 1) text = (layout.sharded ? "sdp " : "dp ") + std::to_string(data);
  if (tensor > 1) text += (text.empty() ? "tp " : " x tp ") + std::to_string(tensor);
  return (text.empty() ? "one device" : text) + (layout.again ? ", run again" : "");
}

Config search_of_layout(Config search, const MenuLayout& layout, std::size_t axes) {
  const std::string data = axes_between(0, layout.data_axes), tensor = axes_between(layout.data_axes, axes);
  search.set("batch_axes", data);
  search.set("weights", tensor == "none" ? "free" : tensor);
  search.set("zero", std::string(layout.sharded ? "3" : "0"));
  search.set("zero_axes", layout.sharded ? data : std::string("all"));
  search.set("recompute", std::string(layout.again ? "all" : "none"));
  return search;
}

double change_seconds(const Mesh& mesh, const MenuLayout& from, const MenuLayout& to, double bytes) {
  const std::size_t few = std::min(from.data_axes, to.data_axes), many = std::max(from.data_axes, to.data_axes);
  if (few == many) return 0;
  AxisSet gathered = 0;
  std::int64_t parts = 1;
  for (std::size_t axis = 0; axis < many; ++axis) {
    parts *= mesh.axes[axis].size;
    if (axis >= few) gathered |= AxisSet{1} << axis;
  }
  return collective_seconds(CollectiveKind::all_gather, mesh.along(gathered), bytes / static_cast<double>(parts));
}

Result<std::optional<FittedPlan>> plan_by_layouts(const PlanningContext& stage, const Cluster& devices, const FittedSolver& solver, const Config& search, const std::vector<Pin>& pins, const LayoutRecipe& recipe,
                                                  std::int64_t budget) {
  Result<Mesh> mesh = make_mesh(devices, recipe.shape);
  if (!mesh) return mesh.error();
  return LayoutPlanner(stage, std::move(*mesh), solver, search, pins, recipe).run(budget);
}

}  // namespace meshwright
