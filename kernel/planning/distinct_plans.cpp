#include "distinct_plans.h"

#include <algorithm>
#include <array>
#include <compare>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "held_space.h"
#include "meshwright/axis_choice.h"
#include "numbered_name.h"
#include "plan_words.h"

namespace meshwright {

namespace {

constexpr int kMostSolved = 400;
constexpr int kReach = 2;  // edges from a kind to the variables that may follow it, in a search for a plan nearby
constexpr std::int64_t kWorkOfNeighbour = 100'000'000;  // of a search for one, where the budget binds: it adds a candidate only
constexpr double kLeastShare = 1.0 / 50;  // of all weights' elements

// Variables that are treated alike in all layers: the weights of one kind, or the ops that compute with them.
using Kind = std::vector<std::uint32_t>;

// What a strategy does along each axis, in an order that does not depend on which of several equal axes does it.
using Treatment = std::vector<std::array<std::size_t, 4>>;

class Treatments {
 public:
  explicit Treatments(const Mesh& mesh) {
    for (const MeshAxis& axis : mesh.axes) {
      const auto equal = [&](const MeshAxis& other) {
        return other.size == axis.size && other.alpha_seconds == axis.alpha_seconds && other.beta_seconds_per_byte == axis.beta_seconds_per_byte;
      };
      first_equal_.push_back(static_cast<std::size_t>(std::find_if(mesh.axes.begin(), mesh.axes.end(), equal) - mesh.axes.begin()));
    }
  }

  [[nodiscard]] Treatment of(const Strategy& strategy) const {
    Treatment treatment;
    for (std::size_t i = 0; i < first_equal_.size(); ++i) {
      if (const NodeStrategy* node = strategy.node()) {
        const AxisChoice& choice = node->call.axes[i];
        treatment.push_back({first_equal_[i], static_cast<std::size_t>(choice.use), choice.factor, choice.atom * std::size_t{256} + choice.group});
      } else {
        const ParameterStrategy& parameter = *strategy.parameter();
        treatment.push_back({first_equal_[i], number(parameter.compute[i]), number(parameter.stored.value[i]), number(parameter.state[i])});
      }
    }
    std::sort(treatment.begin(), treatment.end());
    return treatment;
  }

 private:
  static std::size_t number(Placement placement) { return placement.is_shard() ? placement.atom() + 2 : placement.is_partial() ? 1 : 0; }

  std::vector<std::size_t> first_equal_;  // by axis
};

// The weights that count, with the names that users know.
std::map<ValueId, std::string> weights_of(const Graph& graph) {
  std::map<ValueId, std::string> weights;
  std::map<std::string, double> elements;  // of all layers
  double all_elements = 0;
  for (const Source& source : graph.sources) {
    if (source.kind != SourceKind::parameter || graph.type(source.value).rank() < 2) continue;
    const std::string& name = source.names.empty() ? graph.values[source.value].name : source.names.front();
    const auto count = static_cast<double>(graph.type(source.value).elements());
    weights.emplace(source.value, name);
    elements[numbered_name(name).pattern] += count;
    all_elements += count;
  }
  std::erase_if(weights, [&](const auto& weight) { return elements[numbered_name(weight.second).pattern] < kLeastShare * all_elements; });
  return weights;
}

std::vector<Kind> kinds_of(const ProblemInput& input, const Problem& problem) {
  using Key = std::pair<std::string, std::uint32_t>;  // the name without its number, the strategies
  const std::map<ValueId, std::string> names = weights_of(input.graph());
  std::map<Key, Kind> weights, ops;
  std::set<std::uint32_t> seen;
  for (const ProblemEdge& edge : problem.edges) {
    const auto name = names.find(edge.value);
    if (!edge.of_parameter || name == names.end()) continue;
    const std::string pattern = numbered_name(name->second).pattern;
    const Key key{pattern, problem.variables[edge.from].set->id};
    if (seen.insert(edge.from).second) weights[key].push_back(edge.from);
    if (problem.variables[edge.to].kind == VariableKind::node && seen.insert(edge.to).second) ops[key].push_back(edge.to);
  }
  std::vector<Kind> kinds;
  for (auto& [key, kind] : weights) {
    kinds.push_back(std::move(kind));
    if (ops.contains(key)) kinds.push_back(std::move(ops[key]));
  }
  return kinds;
}

class Search {
 public:
  Search(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget)
      : solver_(solver), input_(input), problem_(problem), budget_(budget), kinds_(kinds_of(input, problem)), treatments_(input.mesh) {}

  Result<DistinctPlans> run(FittedPlan best, std::size_t count, TickSum too_much) {
    DistinctPlans found;
    const double bound = best.plan.lower_bound_seconds;
    const SolveStatus status = best.plan.status;
    const TickSum least = best.assignment.cost;
    accepted_.push_back(best.assignment.choice);
    found.plans.push_back(std::move(best));
    Region whole;
    whole.cost = least;
    split(whole, accepted_.front());
    while (found.plans.size() < count && !open_.empty()) {
      Region region = std::move(open_.extract(open_.begin()).value());
      if (region.cost >= too_much) break;
      if (region.state == State::open) {
        found.cut_off = solved_ == kMostSolved;
        if (found.cut_off) break;
        if (Status solved = solve(std::move(region)); !solved) return solved.error();
      } else if (const auto* like = first_alike(region.choice)) {
        split(region, *like);
      } else if (region.state == State::solved) {
        if (Status fitted = fit(std::move(region)); !fitted) return fitted.error();
      } else {
        FittedPlan plan = std::move(fitted_.at(region.number));
        const bool costs_more = status == SolveStatus::optimal && plan.assignment.cost > least;
        plan.plan.lower_bound_seconds = bound;
        plan.plan.status = costs_more ? SolveStatus::bounded : status;
        accepted_.push_back(plan.assignment.choice);
        found.plans.push_back(std::move(plan));
        split(region, accepted_.back());
      }
    }
    return found;
  }

  Result<std::vector<FittedPlan>> near(const FittedPlan& best, std::size_t count) {
    const std::vector<std::uint32_t>& choice = accepted_.emplace_back(best.assignment.choice);
    split({best.assignment.cost, State::open, 0, {}, {}}, choice);
    std::multimap<TickSum, Assignment> answers;
    std::set<std::vector<std::uint32_t>> seen;
    for (const Region& region : open_) {
      const Costs before = forbid(region.bans);
      const HeldSpace held = hold(problem_.space, choice, near_to(kinds_[bans_[*region.bans.begin()].kind]));
      restore(before);
      const auto solve = [this](StrategySpace space, std::int64_t budget) -> Result<std::vector<std::uint32_t>> {
        Problem part;
        part.space = std::move(space);
        Result<Assignment> answer = solver_.assign(input_, part, budget, kWorkOfNeighbour);
        if (!answer) return answer.error();
        return std::move(answer->choice);
      };
      Result<std::vector<std::uint32_t>> whole = best_around(problem_.space, choice, held, budget_, solve);
      if (!whole) return whole.error();
      if (whole->empty() || !seen.insert(*whole).second) continue;
      const Evaluation evaluation = evaluate(problem_.space, *whole);
      if (evaluation.cost == best.assignment.cost) continue;
      Assignment found{SolveStatus::bounded, std::move(*whole), evaluation.cost, best.assignment.lower_bound, evaluation.peak_bytes, false, best.assignment.method, "", 0};
      answers.emplace(evaluation.cost, std::move(found));
    }
    std::vector<FittedPlan> found;
    for (auto& [cost, answer] : answers) {
      if (found.size() == count) break;
      Result<FittedPlan> fitted = solver_.fit(input_, problem_, std::move(answer), budget_);
      if (!fitted) return fitted.error();
      if (solver_.excess_bytes(fitted->plan, budget_) <= 0) found.push_back(std::move(*fitted));
    }
    return found;
  }

 private:
  // How a kind may not be treated.
  struct Ban {
    std::size_t kind = 0;
    std::vector<Treatment> treatments;  // of its variables
    auto operator<=>(const Ban&) const = default;
  };
  using Bans = std::set<std::size_t>;  // by number

  enum class State : std::uint8_t { fitted, solved, open };  // of equal costs, the one of which most is known goes first

  struct Region {
    TickSum cost = 0;  // if open, a bound: it costs no less than any region that it is a part of
    State state = State::open;
    int number = 0;
    Bans bans;
    std::vector<std::uint32_t> choice;
    bool operator<(const Region& other) const {
      return std::tuple(cost, state, number) < std::tuple(other.cost, other.state, other.number);
    }
  };

  [[nodiscard]] Treatment treatment(std::uint32_t variable, const std::vector<std::uint32_t>& choice) const {
    return treatments_.of(problem_.variables[variable].set->strategies[choice[variable]]);
  }

  [[nodiscard]] bool alike(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) const {
    return std::all_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
      return std::any_of(kind.begin(), kind.end(), [&](std::uint32_t variable) { return treatment(variable, a) == treatment(variable, b); });
    });
  }

  // The first accepted plan that a choice is not distinct from.
  [[nodiscard]] const std::vector<std::uint32_t>* first_alike(const std::vector<std::uint32_t>& choice) const {
    for (const std::vector<std::uint32_t>& accepted : accepted_) {
      if (alike(choice, accepted)) return &accepted;
    }
    return nullptr;
  }

  // The parts of a region in which one kind or another is not treated as in `choice`.
  void split(const Region& region, const std::vector<std::uint32_t>& choice) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      Ban ban{kind, {}};
      for (const std::uint32_t variable : kinds_[kind]) ban.treatments.push_back(treatment(variable, choice));
      const std::size_t number = numbers_.try_emplace(ban, numbers_.size()).first->second;
      if (number == bans_.size()) bans_.push_back(std::move(ban));
      Region part{region.cost, State::open, made_, region.bans, {}};
      part.bans.insert(number);
      if (!tried_.insert(part.bans).second) continue;
      for (const std::size_t one : part.bans) {
        if (const auto known = cost_of_ban_.find(one); known != cost_of_ban_.end()) part.cost = std::max(part.cost, known->second);
      }
      ++made_;
      open_.insert(std::move(part));
    }
  }

  Status solve(Region region) {
    ++solved_;
    const Costs before = forbid(region.bans);
    Result<Assignment> answer = solver_.assign(input_, problem_, budget_);
    restore(before);
    if (!answer) return answer.error();
    const bool is_empty = answer->choice.empty();
    if (region.bans.size() == 1) cost_of_ban_[*region.bans.begin()] = is_empty ? std::numeric_limits<TickSum>::max() : answer->cost;
    if (is_empty) return Done{};
    region.cost = answer->cost;
    region.state = State::solved;
    region.choice = std::move(answer->choice);
    open_.insert(std::move(region));
    return Done{};
  }

  // Its best plan whose program fits, which may cost more than the search's terms say.
  Status fit(Region region) {
    const Costs before = forbid(region.bans);
    Result<FittedSearch> fitted = solver_.search(input_, problem_, budget_);
    restore(before);
    if (!fitted) return fitted.error();
    if (!fitted->best) return Done{};
    region.state = State::fitted;
    region.cost = fitted->best->assignment.cost;
    region.choice = fitted->best->assignment.choice;
    fitted_.insert_or_assign(region.number, std::move(*fitted->best));
    open_.insert(std::move(region));
    return Done{};
  }

  using Costs = std::map<std::uint32_t, std::vector<Ticks>>;  // by variable

  // What the costs were before.
  Costs forbid(const Bans& bans) {
    Costs before;
    for (const std::size_t number : bans) {
      const Ban& ban = bans_[number];
      for (std::size_t i = 0; i < ban.treatments.size(); ++i) {
        const std::uint32_t variable = kinds_[ban.kind][i];
        std::vector<Ticks>& costs = problem_.space.nodes[variable].costs;
        before.try_emplace(variable, costs);
        const std::vector<Strategy>& strategies = problem_.variables[variable].set->strategies;
        for (std::size_t s = 0; s < costs.size(); ++s) {
          if (treatments_.of(strategies[s]) == ban.treatments[i]) costs[s] = kForbidden;
        }
      }
    }
    return before;
  }

  // Which variables may follow a kind that is treated otherwise.
  [[nodiscard]] std::vector<bool> near_to(const Kind& kind) const {
    std::vector<bool> near(problem_.variables.size(), false);
    for (const std::uint32_t variable : kind) near[variable] = true;
    for (int i = 0; i < kReach; ++i) {
      const std::vector<bool> reached = near;
      for (const ProblemEdge& edge : problem_.edges) {
        if (reached[edge.from] || reached[edge.to]) near[edge.from] = near[edge.to] = true;
      }
    }
    return near;
  }

  void restore(const Costs& before) {
    for (const auto& [variable, costs] : before) problem_.space.nodes[variable].costs = costs;
  }

  const FittedSolver& solver_;
  const ProblemInput& input_;
  Problem& problem_;
  const std::int64_t budget_;
  const std::vector<Kind> kinds_;
  const Treatments treatments_;
  std::deque<std::vector<std::uint32_t>> accepted_;
  std::vector<Ban> bans_;
  std::map<Ban, std::size_t> numbers_;           // of bans
  std::map<std::size_t, TickSum> cost_of_ban_;  // of the best choice under it alone
  std::set<Region> open_;
  std::map<int, FittedPlan> fitted_;  // by region
  std::set<Bans> tried_;
  int made_ = 0, solved_ = 0;
};

bool same_treatment(const PlannedVariable& a, const PlannedVariable& b) {
  if (const PlannedNode* node = a.node()) return node->call.axes == b.node()->call.axes;
  const PlannedParameter &one = *a.parameter(), &other = *b.parameter();
  return one.compute == other.compute && one.state == other.state && one.stored.value == other.stored.value;
}

}  // namespace

std::vector<std::string> differences(const Plan& plan, const Plan& other) {
  const std::map<ValueId, std::string> weights = weights_of(plan.graph());
  struct Same {
    std::string text;  // what is done
    std::string pattern;
    NameNumbers numbers;
  };
  std::vector<Same> all;
  for (std::size_t i = 0; i < plan.variables.size(); ++i) {
    const PlannedVariable& variable = plan.variables[i];
    std::string label;
    if (variable.parameter() != nullptr && weights.contains(variable.parameter()->value)) label = weights.at(variable.parameter()->value);
    if (variable.node() != nullptr) {
      const Node& node = plan.graph().nodes[variable.node()->node];
      const auto is_weight = [&](const Operand& operand) { return weights.contains(operand.value); };
      if (std::ranges::any_of(node.operands, is_weight)) label = node.module_path.empty() ? node.name : node.module_path;
    }
    if (label.empty() || same_treatment(variable, other.variables[i])) continue;
    const NumberedName name = numbered_name(label);
    const std::string text = choice_text(plan.model, variable);
    auto like = std::ranges::find_if(all, [&](const Same& known) { return known.text == text && known.pattern == name.pattern; });
    if (like == all.end()) like = all.insert(all.end(), {text, name.pattern, {}});
    like->numbers.add(name.number);
  }
  std::vector<std::string> texts;
  for (const Same& same : all) texts.push_back(same.numbers.text(same.pattern) + ": " + same.text);
  return texts;
}

Result<DistinctPlans> distinct_plans(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget,
                                     FittedPlan best, std::size_t count, TickSum too_much) {
  return Search(solver, input, problem, budget).run(std::move(best), count, too_much);
}

Result<std::vector<FittedPlan>> neighbouring_plans(const FittedSolver& solver, const ProblemInput& input, Problem& problem, std::int64_t budget,
                                                   const FittedPlan& best, std::size_t count) {
  return Search(solver, input, problem, budget).near(best, count);
}

}  // namespace meshwright
