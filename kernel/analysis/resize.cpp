#include "meshwright/resize.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "analysis/same_rule.h"
#include "analysis/size_joins.h"
#include "graph/aten/call.h"

namespace meshwright {

namespace {

// Classes that are looked at together when one op does not bear its sizes.
constexpr std::size_t kMostTogether = 4;

class Resizer {
 public:
  Resizer(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const OpTable& ops, std::map<std::uint32_t, std::int64_t> sizes)
      : graph_(graph), atoms_(atoms), classes_(classes), ops_(ops), sizes_(std::move(sizes)) {}

  Result<Resized> run() {
    for (const auto& [each, size] : std::map(sizes_)) {
      const auto known = classes_.sizes.find(each);
      if (known == classes_.sizes.end()) return bad_input("there is no class of sizes " + std::to_string(each));
      if (size < 2) return bad_input("a size of " + std::to_string(size) + " is asked for in place of " + std::to_string(known->second) + "; it must be at least 2");
      const auto fixed = classes_.fixed.find(each);
      if (fixed != classes_.fixed.end() && size != known->second) hold(each, fixed->second);
    }
    for (NodeId id = 0; id < graph_.nodes.size();) {
      const std::string problem = problem_of(id);
      if (problem.empty()) {
        ++id;
        continue;
      }
      if (Status status = hold_at(id, problem); !status) return status.error();
      id = 0;  // those before it have other sizes now
    }
    Graph& made = made_.graph = graph_;
    for (ValueId value = 0; value < made.values.size(); ++value) made.values[value].type = resized(value);
    for (NodeId id = 0; id < made.nodes.size(); ++id) {
      const OpCall now = make_call(made, graph_.nodes[id]);
      made.nodes[id] = node_of_sizes(make_call(graph_, graph_.nodes[id]), now.operands, now.results);
    }
    if (Status status = validate(made); !status) return status.error();
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::int64_t size_of(std::uint32_t of) const {
    const auto found = sizes_.find(of);
    return found != sizes_.end() ? found->second : classes_.sizes.at(of);
  }

  [[nodiscard]] TensorType resized(ValueId value) const {
    TensorType type = graph_.type(value);
    const AtomShape& shape = atoms_.values[value];
    std::size_t atom = 0;
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      if (shape.atoms_of_dimension[d] == 0) continue;
      type.shape[d] = 1;
      for (std::size_t i = 0; i < shape.atoms_of_dimension[d]; ++i, ++atom) type.shape[d] *= size_of(classes_.of[value][atom]);
    }
    return type;
  }

  // Why the node does not bear its sizes; empty if it does.
  [[nodiscard]] std::string problem_of(NodeId id) const {
    const Node& node = graph_.nodes[id];
    const OpCall before = make_call(graph_, node);
    // A graph of this node alone.
    Graph alone;
    Node copy = node;
    const auto add = [&](ValueId& value, bool made) {
      alone.values.push_back(graph_.values[value]);
      alone.values.back().type = resized(value);
      alone.values.back().producer = made ? 0 : kNoId;
      alone.values.back().name += "." + std::to_string(alone.values.size());
      if (!made) alone.sources.push_back({SourceKind::user_input, static_cast<ValueId>(alone.values.size() - 1), {}});
      value = static_cast<ValueId>(alone.values.size() - 1);
    };
    for (Operand& operand : copy.operands) add(operand.value, false);
    for (ValueId& result : copy.results) add(result, true);
    alone.nodes.push_back(copy);
    const OpCall now = make_call(alone, copy);
    if (now.operands == before.operands && now.results == before.results) return "";
    Node sized = node_of_sizes(before, now.operands, now.results);
    sized.operands = copy.operands;
    sized.results = copy.results;
    alone.nodes[0] = std::move(sized);
    mark_gradients(alone);
    if (Status status = validate(alone); !status) {
      const std::string& message = status.error().message;  // "graph '', node 'x' (op): why"
      const std::size_t at = message.find("): ");
      return at == std::string::npos ? message : message.substr(at + 3);
    }
    const OpFamily* family = ops_.find(node.op);
    if (family == nullptr || !atoms_.nodes[id].ruled) return now.operands == before.operands || is_inferred(alone) ? "" : "no rule says what it does with other sizes";
    const Result<Rule> rule = family->rule(make_call(alone, alone.nodes[0])), known = family->rule(before);
    if (!rule) return rule.error().message;
    if (!known) return known.error().message;
    return is_same_but_for_sizes(*rule, *known) ? "" : "its rule would be another one, " + to_string(*rule);
  }

  // Whether the shapes of a graph's only node were inferred, so that validating it says something.
  static bool is_inferred(const Graph& alone) {
    const Result<std::optional<aten::Shapes>> shapes = aten::infer(aten::Call(alone, alone.nodes[0]));
    return shapes && shapes->has_value();
  }

  Status hold_at(NodeId id, const std::string& problem) {
    const Node& node = graph_.nodes[id];
    const std::string why = node.op + " at '" + node.name + "': " + problem;
    std::set<std::pair<std::int64_t, std::uint32_t>> changed;  // the smallest first
    const auto look = [&](ValueId value) {
      for (const std::uint32_t each : classes_.of[value]) {
        if (size_of(each) != classes_.sizes.at(each)) changed.emplace(classes_.sizes.at(each), each);
      }
    };
    for (const Operand& operand : node.operands) look(operand.value);
    for (const ValueId result : node.results) look(result);
    if (changed.empty()) return bad_input(why);
    std::vector<std::uint32_t> list;
    for (const auto& [size, each] : changed) list.push_back(each);
    for (std::size_t count = 1; count <= std::min(kMostTogether, list.size()); ++count) {
      std::vector<std::uint32_t> chosen;
      if (!helps(id, list, 0, count, chosen)) continue;
      for (const std::uint32_t each : chosen) hold(each, why);
      return Done{};
    }
    for (const std::uint32_t each : list) hold(each, why);
    return Done{};
  }

  // Whether the node bears its sizes once `count` of the classes from `first` on keep theirs; which ones is added to `chosen`.
  bool helps(NodeId id, const std::vector<std::uint32_t>& list, std::size_t first, std::size_t count, std::vector<std::uint32_t>& chosen) {
    if (count == 0) return problem_of(id).empty();
    for (std::size_t i = first; i + count <= list.size(); ++i) {
      const std::int64_t wanted = size_of(list[i]);
      sizes_[list[i]] = classes_.sizes.at(list[i]);
      chosen.push_back(list[i]);
      const bool found = helps(id, list, i + 1, count - 1, chosen);
      sizes_[list[i]] = wanted;
      if (found) return true;
      chosen.pop_back();
    }
    return false;
  }

  // And all that are tied to it, since theirs would have changed with it.
  void hold(std::uint32_t each, const std::string& why) {
    std::vector<std::uint32_t> left{each};
    while (!left.empty()) {
      const std::uint32_t here = left.back();
      left.pop_back();
      if (here != each && size_of(here) == classes_.sizes.at(here)) continue;
      sizes_[here] = classes_.sizes.at(here);
      made_.held.try_emplace(here, here == each ? why : "it changes together with one that does not: " + why);
      for (const SizeTie& tie : classes_.ties) {
        if (tie.one == here) left.push_back(tie.other);
        if (tie.other == here) left.push_back(tie.one);
      }
    }
  }

  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const SizeClasses& classes_;
  const OpTable& ops_;
  std::map<std::uint32_t, std::int64_t> sizes_;
  Resized made_;
};

}  // namespace

Result<Resized> resize(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const OpTable& ops, std::map<std::uint32_t, std::int64_t> sizes) {
  return Resizer(graph, atoms, classes, ops, std::move(sizes)).run();
}

}  // namespace meshwright
