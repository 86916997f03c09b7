#include "assembled_stage.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "known_prices.h"
#include "meshwright/recompute.h"

namespace meshwright {

namespace {

constexpr int kMostTries = 4;             // of how many ops go the faster way
constexpr double kNearEnoughPart = 0.02;  // of the ops: no further try is worth it
constexpr double kPrudent = 0.9;          // of the room that there seems to be

class Assembler {
 public:
  Assembler(const PlanningContext& stage, const FittedSolver& solver, const std::vector<Pin>& pins, const ModelAnalysis& short_model, const AlikeNames& alike, const StageRecipe& recipe)
      : stage_(with_prices(stage, recipe.ways.prices())), solver_(solver), pins_(pins), short_model_(short_model), alike_(alike), recipe_(recipe), faster_(way(recipe.faster)), smaller_(way(recipe.smaller)) {}

  Result<std::optional<FittedPlan>> run(std::int64_t budget) {
    if (Status status = read_ways(); !status) return status.error();
    const AssembledParts::key_type key{stage_.graph().nodes.size(), recipe_.faster, recipe_.smaller, recipe_.part, recipe_.part_bytes, budget, stage_.training.order};
    if (recipe_.known != nullptr && recipe_.known->contains(key)) {
      const AssembledPart& before = recipe_.known->at(key);
      Result<std::optional<FittedPlan>> made = make(before.part, budget);
      if (!made) return made;
      const bool is_same = *made && solver_.is_within(**made, budget) && (*made)->plan.peak_bytes == before.peak_bytes && (*made)->plan.step_seconds == before.step_seconds;
      if (is_same) return made;
    }
    double part = 0;
    Result<std::optional<FittedPlan>> best = search(budget, part);
    if (recipe_.known != nullptr && best && *best) recipe_.known->insert_or_assign(key, AssembledPart{part, (*best)->plan.peak_bytes, (*best)->plan.step_seconds});
    return best;
  }

 private:
  // The best one, and of which part it is.
  Result<std::optional<FittedPlan>> search(std::int64_t budget, double& best_part) const {
    std::optional<FittedPlan> best;
    double fits = -1, above = 2;  // parts: the most that fits, the least that does not
    const bool is_mixture = recipe_.faster != recipe_.smaller;
    double part = is_mixture ? recipe_.part : 0;
    for (int i = 0; i < kMostTries && above - fits > kNearEnoughPart; ++i) {
      Result<std::optional<FittedPlan>> made = make(part, budget);
      if (!made) return made;
      if (!*made) return best;
      const FittedPlan& plan = **made;
      const auto room = -static_cast<double>(solver_.excess_bytes(plan.plan, budget));
      const bool fits_here = solver_.is_within(plan, budget);
      const double room_part = plan.no_program.empty() && recipe_.part_bytes > 0 ? room / recipe_.part_bytes : fits_here ? 0 : -part / 2;
      if (fits_here && (!best || plan.plan.step_seconds < best->plan.step_seconds)) {
        best = std::move(*made);
        best_part = part;
      }
      (fits_here ? fits : above) = part;
      if (!is_mixture || (fits_here ? part >= 1 : part <= 0)) break;
      if (fits_here && room_part < kNearEnoughPart) break;
      part = next_part(fits, above, part, room_part);
    }
    return best;
  }

  // As much more, or less, as the room is for, between the most that fits and the least that does not.
  static double next_part(double fits, double above, double part, double room_part) {
    const double by = room_part > 0 ? kPrudent * room_part : std::min(room_part / kPrudent, -kNearEnoughPart);
    const double next = std::clamp(part + by, 0.0, 1.0);
    return fits < next && next < above ? next : (fits + above) / 2;
  }

  [[nodiscard]] const SplitWay& way(std::size_t number) const { return recipe_.ways.ways()[number]; }

  struct ReadWay {
    std::vector<bool> ops;                // by node of the short model: runs again
    std::set<NodeOperand> operands;       // that are converted again
  };

  Status read_ways() {
    for (auto& [way, read] : {std::pair(&faster_, &read_faster_), std::pair(&smaller_, &read_smaller_)}) {
      Result<std::vector<bool>> ops = ops_named(short_model_, way->recomputed);
      if (!ops) return ops.error();
      Result<std::set<NodeOperand>> operands = operands_named(short_model_, way->recomputed);
      if (!operands) return operands.error();
      *read = {std::move(*ops), std::move(*operands)};
    }
    const Problem& problem = recipe_.ways.problem();
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) known_.emplace(std::pair(problem.variables[i].kind, name_of(*short_model_.graph, problem.variables[i])), i);
    const Graph& graph = *short_model_.graph;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) short_nodes_.emplace(graph.nodes[id].name, id);
    return Done{};
  }

  // Of a variable that which stays the same in all models cut from one: a node's name, or a value's.
  static const std::string& name_of(const Graph& graph, const Variable& variable) { return variable.kind == VariableKind::node ? graph.nodes[variable.node].name : graph.values[variable.value].name; }

  // By node of the stage, whether it goes the faster way.
  [[nodiscard]] std::vector<bool> faster_nodes(double part) const {
    const auto count = static_cast<double>(stage_.graph().nodes.size());
    std::vector<bool> faster;
    for (std::size_t id = 0; id < stage_.graph().nodes.size(); ++id) faster.push_back(static_cast<double>(id) >= (1 - part) * count);
    return faster;
  }

  [[nodiscard]] std::vector<std::string> recomputed(const std::vector<bool>& faster) const {
    const Graph& graph = stage_.graph();
    std::vector<bool> ops(graph.nodes.size(), false);
    std::set<NodeOperand> operands;
    const std::set<NodeOperand> convertible = convertible_operands(stage_.model);
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const auto alike = alike_.find(graph.nodes[id].name);
      if (alike == alike_.end()) continue;
      const auto node = short_nodes_.find(alike->second);
      if (node == short_nodes_.end()) continue;
      const ReadWay& way = faster[id] ? read_faster_ : read_smaller_;
      ops[id] = way.ops[node->second];
      for (std::uint32_t port = 0; port < graph.nodes[id].operands.size(); ++port) {
        if (way.operands.contains({node->second, port}) && convertible.contains({id, port})) operands.emplace(id, port);
      }
    }
    return recomputed_names(stage_.model, ops, operands);
  }

  static bool is_same(const Strategy& one, const Strategy& other) {
    if (one.choice.index() != other.choice.index()) return false;
    if (const ParameterStrategy* a = one.parameter()) {
      const ParameterStrategy& b = *other.parameter();
      return a->stored == b.stored && a->compute == b.compute && a->state == b.state && a->zero == b.zero && a->regather == b.regather && a->prefetch == b.prefetch;
    }
    if (const NodeStrategy* a = one.node()) return a->call == other.node()->call;
    if (const auto* a = std::get_if<ForkStrategy>(&one.choice)) return a->layouts == std::get<ForkStrategy>(other.choice).layouts;
    return std::get<OutputStrategy>(one.choice).layouts == std::get<OutputStrategy>(other.choice).layouts;
  }

  // A value belongs to who makes it, or to who reads it first.
  [[nodiscard]] NodeId node_of(const Variable& variable) const {
    if (variable.kind == VariableKind::node) return variable.node;
    if (const NodeId producer = stage_.graph().values[variable.value].producer; producer != kNoId) return producer;
    for (NodeId id = 0; id < stage_.graph().nodes.size(); ++id) {
      for (const Operand& operand : stage_.graph().nodes[id].operands) {
        if (operand.value == variable.value) return id;
      }
    }
    return 0;
  }

  // Forbids all but what the short model does; a variable of which it says nothing that there is is left free.
  void restrict(const std::vector<bool>& faster, Problem& problem) const {
    const Problem& shorter = recipe_.ways.problem();
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
      const Variable& variable = problem.variables[i];
      const auto alike = alike_.find(name_of(stage_.graph(), variable));
      if (alike == alike_.end()) continue;
      const auto known = known_.find({variable.kind, alike->second});
      if (known == known_.end()) continue;
      const SplitWay& way = faster[node_of(variable)] ? faster_ : smaller_;
      const Strategy& wanted = shorter.variables[known->second].set->strategies[way.layouts[known->second]];
      const std::vector<Strategy>& strategies = variable.set->strategies;
      const auto same = std::ranges::find_if(strategies, [&](const Strategy& strategy) { return is_same(strategy, wanted); });
      if (same == strategies.end()) continue;
      for (std::size_t s = 0; s < strategies.size(); ++s) {
        if (&strategies[s] != &*same) problem.space.nodes[i].costs[s] = kForbidden;
      }
    }
  }

  Result<std::optional<FittedPlan>> make(double part, std::int64_t budget) const {
    const std::vector<bool> faster = faster_nodes(part);
    ProblemInput input{stage_, recipe_.ways.mesh(), recipe_.ways.filter()};
    input.recomputed = recomputed(faster);
    Result<Problem> problem = build_pinned(input, pins_, recipe_.ways.strategies());
    if (!problem && problem.error().code == ErrorCode::infeasible) return std::optional<FittedPlan>();
    if (!problem) return problem.error();
    Problem restricted = *problem;
    restricted.space.memory.clear();
    restrict(faster, restricted);
    Result<Assignment> answer = solver_.solve(input, restricted, kNoBudget, kAnyWork);
    if (!answer) return answer.error();
    if (answer->choice.empty()) return std::optional<FittedPlan>();
    answer->peak_bytes = evaluate(problem->space, answer->choice).peak_bytes;
    answer->status = SolveStatus::heuristic;
    answer->lower_bound = 0;
    answer->method = "equal parts of the model as a few of them were searched for";
    Result<FittedPlan> fitted = solver_.fit_within(input, *problem, std::move(*answer), budget);
    if (!fitted) return fitted.error();
    return std::optional(std::move(*fitted));
  }

  const PlanningContext stage_;
  const FittedSolver& solver_;
  const std::vector<Pin>& pins_;
  const ModelAnalysis& short_model_;
  const AlikeNames& alike_;
  const StageRecipe& recipe_;
  const SplitWay &faster_, &smaller_;
  ReadWay read_faster_, read_smaller_;
  std::map<std::pair<VariableKind, std::string>, std::uint32_t> known_;  // variables of the short model
  std::unordered_map<std::string, NodeId> short_nodes_;
};

}  // namespace

bool can_assemble(const ModelUnits& whole, const ShortModel& shorter, const IntraSolver& solver, const Config& search) {
  const bool is_whole = shorter.units.units.size() == whole.units.size();
  return !is_whole && !solver.reads_model() && search.text("checkpoint") == "none" && search.text("recompute") != "blocks" && search.text("inputs") != "rows";
}

Result<std::optional<FittedPlan>> assemble_stage(const PlanningContext& stage, const FittedSolver& solver, const std::vector<Pin>& pins, const ModelAnalysis& short_model, const AlikeNames& alike,
                                                 const StageRecipe& recipe, std::int64_t budget) {
  return Assembler(stage, solver, pins, short_model, alike, recipe).run(budget);
}

}  // namespace meshwright
