#include "pins.h"

#include <algorithm>
#include <functional>

#include "name_list.h"
#include "nearest_name.h"

namespace meshwright {

namespace {

constexpr std::size_t kMostListed = 12;

class Pinner {
 public:
  Pinner(const Pin& pin, const ProblemInput& input, Problem& problem) : pin_(pin), input_(input), problem_(problem) {}

  Status run() {
    const ValueId value = find_value();
    bool any = pin_strategy();
    if (value != kNoId) any = pin_layout(value) || any;
    if (any) return Done{};
    if (value == kNoId && !is_node_) return unknown();
    if (choices_.empty()) {
      return bad_input(pin_.where + ": '" + pin_.name + "' has no gradient: each use of it gets a copy in the layout that it wants, so there is nothing to pin");
    }
    return infeasible(to_string(pin_) + " in [pins] cannot be met on mesh " + to_string(input_.mesh) + "; it can be " + listed());
  }

 private:
  // What a value or a parameter is called, in the graph or in the model.
  [[nodiscard]] ValueId find_value() const {
    for (const Source& source : input_.graph().sources) {
      if (std::find(source.names.begin(), source.names.end(), pin_.name) != source.names.end()) return source.value;
    }
    for (ValueId id = 0; id < input_.graph().values.size(); ++id) {
      if (input_.graph().values[id].name == pin_.name) return id;
    }
    return kNoId;
  }

  // Keeps the strategies of a variable that `fits`, if there are any; notes what each of them is.
  bool keep(std::uint32_t variable, const std::function<bool(const Strategy&)>& fits, const std::function<std::string(const Strategy&)>& text) {
    const std::vector<Strategy>& strategies = problem_.variables[variable].set->strategies;
    for (const Strategy& strategy : strategies) {
      const std::string choice = text(strategy);
      if (std::find(choices_.begin(), choices_.end(), choice) == choices_.end()) choices_.push_back(choice);
    }
    if (std::none_of(strategies.begin(), strategies.end(), fits)) return false;
    for (std::size_t s = 0; s < strategies.size(); ++s) {
      if (!fits(strategies[s])) problem_.space.nodes[variable].costs[s] = kForbidden;
    }
    return true;
  }

  bool pin_strategy() {
    const std::vector<std::string> wanted = split_names(pin_.text);
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      const Variable& variable = problem_.variables[i];
      if (variable.kind != VariableKind::node || variable.name != pin_.name) continue;
      is_node_ = true;
      const AtomizedNode& atoms = input_.atoms().nodes[variable.node];
      const auto fits = [&](const Strategy& strategy) {
        const std::vector<AxisChoice>& axes = strategy.node()->call.axes;
        if (axes.size() != wanted.size()) return false;
        for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
          if (wanted[axis] != "*" && wanted[axis] != to_string(axes[axis], atoms)) return false;
        }
        return true;
      };
      const auto text = [&](const Strategy& strategy) {
        std::string all;
        for (const AxisChoice& choice : strategy.node()->call.axes) all += (all.empty() ? "" : ", ") + to_string(choice, atoms);
        return all;
      };
      return keep(i, fits, text);
    }
    return false;
  }

  // Where the value's users get it: at its fork, if it has one.
  bool pin_layout(ValueId value) {
    const AtomShape& shape = input_.atoms().values[value];
    const Result<Layout> wanted = parse_layout(pin_.text, shape, input_.mesh.rank());
    const auto is_fork = [&](const ProblemEdge& edge) { return problem_.variables[edge.to].kind == VariableKind::fork; };
    std::vector<ProblemEdge> uses;
    for (const ProblemEdge& edge : problem_.edges) {
      if (edge.value == value) uses.push_back(edge);
    }
    if (std::any_of(uses.begin(), uses.end(), is_fork)) std::erase_if(uses, [&](const ProblemEdge& edge) { return !is_fork(edge); });
    bool all = !uses.empty();
    for (const ProblemEdge& use : uses) {
      const auto fits = [&](const Strategy& strategy) { return wanted.ok() && strategy.operand(use.to_port).value == *wanted; };
      const auto text = [&](const Strategy& strategy) { return meshwright::to_string(strategy.operand(use.to_port).value, shape); };
      all = keep(use.to, fits, text) && all;
    }
    return all;
  }

  [[nodiscard]] Error unknown() const {
    std::vector<std::string> known;
    for (const Source& source : input_.graph().sources) known.insert(known.end(), source.names.begin(), source.names.end());
    for (const Value& value : input_.graph().values) known.push_back(value.name);
    for (const Node& node : input_.graph().nodes) known.push_back(node.name);
    const std::string nearest = nearest_name(pin_.name, known);
    return bad_input(pin_.where + ": the model has no parameter, value or node '" + pin_.name + "'" +
                     (nearest.empty() ? "; a plan's file and `emit` show their names" : "; did you mean \"" + nearest + "\"?"));
  }

  [[nodiscard]] std::string listed() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(choices_.size(), kMostListed); ++i) text += (i > 0 ? "\", \"" : "\"") + choices_[i];
    text += "\"";
    return choices_.size() > kMostListed ? text + " and " + std::to_string(choices_.size() - kMostListed) + " more" : text;
  }

  const Pin& pin_;
  const ProblemInput& input_;
  Problem& problem_;
  bool is_node_ = false;
  std::vector<std::string> choices_;  // what could have been asked for
};

}  // namespace

Result<Problem> build_pinned(const ProblemInput& input, std::span<const Pin> pins) {
  KnownStrategies known;
  return build_pinned(input, pins, known);
}

Result<Problem> build_pinned(const ProblemInput& input, std::span<const Pin> pins, KnownStrategies& known) {
  Result<Problem> problem = build_problem(input, known);
  if (!problem) return problem;
  if (Status pinned = apply_pins(pins, input, *problem); !pinned) return pinned.error();
  return problem;
}

std::string to_string(const Pin& pin) { return "\"" + pin.name + "\" = \"" + pin.text + "\""; }

Status apply_pins(std::span<const Pin> pins, const ProblemInput& input, Problem& problem) {
  for (const Pin& pin : pins) {
    if (is_of_recomputation(pin)) continue;
    if (Status status = Pinner(pin, input, problem).run(); !status) return status;
  }
  return Done{};
}

}  // namespace meshwright
