#include "shrink_sizes.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

namespace meshwright {

namespace {

constexpr std::int64_t kSmall = 8;   // sizes up to this stay
constexpr std::int64_t kLeast = 6;
constexpr std::int64_t kTries = 16;  // of sizes one behind the other, until one is like no other

// Into how many parts one plan's layouts cut the atoms of its own model.
class CutCounter {
 public:
  explicit CutCounter(const Plan& plan) : plan_(plan), atoms_(training_atoms(plan.model)) {
    for (const PlannedVariable& variable : plan.variables) {
      if (const PlannedNode* node = variable.node()) {
        count(plan.graph().nodes[node->node], node->call);
        for (std::size_t i = 0; i < node->backward.size(); ++i) count(training_graph(plan.model).nodes[plan.model.backward->backward_of[node->node][i]], node->backward[i]);
      } else if (const PlannedParameter* parameter = variable.parameter()) {
        for (const Layout* layout : {&parameter->stored.value, &parameter->stored.gradient, &parameter->compute, &parameter->state}) count(parameter->value, *layout);
      } else if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) {
        count(fork->value, fork->layouts);
      } else {
        const auto& output = std::get<PlannedOutput>(variable.choice);
        count(output.value, output.layouts);
      }
    }
    for (const PlannedConversion& conversion : plan.conversions) {
      for (const Layout* layout : {&conversion.source, &conversion.target}) count(conversion.value, *layout);
      for (const PlannedMove& move : conversion.moves) count(conversion.value, move.move.result);
    }
    for (const PlannedConstant& constant : plan.constants) {
      count(constant.value, constant.wanted);
      count(training_graph(plan.model).nodes[training_graph(plan.model).values[constant.value].producer], constant.made);
    }
  }

  [[nodiscard]] std::int64_t parts(ValueId value, std::size_t atom) const {
    const auto found = parts_.find(atoms_.classes[value][atom]);
    return found == parts_.end() ? 1 : found->second;
  }

 private:
  void count(const Node& node, const CallLayouts& call) {
    for (std::size_t i = 0; i < call.operands.size(); ++i) count(node.operands[i].value, call.operands[i]);
    for (std::size_t i = 0; i < call.results.size(); ++i) count(node.results[i], call.results[i]);
  }
  void count(ValueId value, const PortLayouts& layouts) {
    count(value, layouts.value);
    count(value, layouts.gradient);
  }
  void count(ValueId value, const Layout& layout) {
    for (std::size_t atom = 0; atom < atoms_.classes[value].size(); ++atom) {
      const std::int64_t here = shards_of_atom(layout, plan_.mesh, atom);
      if (here == 1) continue;
      std::int64_t& parts = parts_.try_emplace(atoms_.classes[value][atom], 1).first->second;
      parts = std::lcm(parts, here);
    }
  }

  const Plan& plan_;
  const AtomizedGraph& atoms_;
  std::map<std::uint32_t, std::int64_t> parts_;
};

class SizeChooser {
 public:
  // `roles`: by class a text that is the same for what is the same in all blocks. `padded`: classes that need not be divided. `devices`: of a stage.
  SizeChooser(const SizeClasses& classes, std::map<std::uint32_t, std::int64_t> parts, std::map<std::uint32_t, std::string> roles, std::set<std::uint32_t> padded, std::int64_t devices)
      : classes_(classes), parts_(std::move(parts)), roles_(std::move(roles)), padded_(std::move(padded)), devices_(devices) {}

  SmallSizes run() {
    for (const auto& [each, size] : classes_.sizes) group_of_[each] = each;
    for (const SizeTie& tie : classes_.ties) {
      if (!tie.scales) join(tie.one, tie.other);
    }
    std::map<std::uint32_t, std::vector<std::uint32_t>> groups;
    for (const auto& [each, size] : classes_.sizes) groups[root(each)].push_back(each);
    std::map<std::uint32_t, std::set<std::uint32_t>> scaled = scaled_groups(groups);
    std::set<std::uint32_t> in_scaled;
    for (const auto& [first, members] : scaled) in_scaled.insert(members.begin(), members.end());
    for (const auto& [each, size] : classes_.sizes) {
      if (size <= kSmall) used_.insert(size);
    }
    for (const auto& [first, members] : scaled) scale(members);
    for (const auto& [first, members] : groups) {
      const bool is_scaled = std::ranges::any_of(members, [&](std::uint32_t each) { return in_scaled.contains(each); });
      if (!is_scaled) shift(members);
      else if (members.size() > 1) hold(members, "it is cut into pieces of unlike sizes, and other sizes differ from it by little");
    }
    return std::move(made_);
  }

 private:
  std::uint32_t root(std::uint32_t of) {
    while (group_of_.at(of) != of) of = group_of_[of] = group_of_.at(group_of_.at(of));
    return of;
  }
  void join(std::uint32_t a, std::uint32_t b) { group_of_[std::max(root(a), root(b))] = std::min(root(a), root(b)); }

  [[nodiscard]] std::int64_t size(std::uint32_t of) const { return classes_.sizes.at(of); }
  [[nodiscard]] std::int64_t parts(std::uint32_t of) const {
    const auto found = parts_.find(of);
    return found == parts_.end() ? 1 : found->second;
  }
  [[nodiscard]] std::int64_t least(std::uint32_t of) const { return std::max(2 * parts(of), kLeast); }

  // Whether the parts that the plan cuts it into divide this size as they divide the class's own. What may be padded is, to a multiple of the devices, and
  // that leaves no device without elements (layout.cpp).
  [[nodiscard]] bool is_cut_as_before(std::uint32_t of, std::int64_t now) const {
    if (parts(of) == 1) return true;
    if (!padded_.contains(of)) return now % parts(of) == size(of) % parts(of);
    if (size(of) % devices_ == 0) return now % devices_ == 0;
    const std::int64_t each = (now + devices_ - 1) / devices_;
    return std::gcd(now, parts(of)) == std::gcd(size(of), parts(of)) && each * (devices_ - 1) < now;
  }

  // Classes that change by one factor; those of which one keeps a difference too stay as they are.
  std::map<std::uint32_t, std::set<std::uint32_t>> scaled_groups(const std::map<std::uint32_t, std::vector<std::uint32_t>>& groups) {
    std::map<std::uint32_t, std::uint32_t> of;
    std::map<std::uint32_t, std::set<std::uint32_t>> made;
    for (const SizeTie& tie : classes_.ties) {
      if (!tie.scales) continue;
      for (const std::uint32_t each : {tie.one, tie.other}) {
        if (of.try_emplace(each, each).second) made[each] = {each};
        if (groups.at(root(each)).size() > 1) rigid_.insert(each);
      }
      const std::uint32_t a = of.at(tie.one), b = of.at(tie.other);
      if (a != b) {
        for (const std::uint32_t each : made.at(b)) of[each] = a;
        made.at(a).merge(made.at(b));
        made.erase(b);
      }
    }
    return made;
  }

  void scale(const std::set<std::uint32_t>& members) {
    std::int64_t common = 0;
    bool rigid = false;
    for (const std::uint32_t each : members) {
      common = std::gcd(common, size(each));
      rigid |= rigid_.contains(each);
    }
    for (const SizeTie& tie : classes_.ties) {
      if (!tie.scales || !members.contains(tie.one)) continue;
      for (const std::int64_t at : tie.divided) common = std::gcd(common, at);
    }
    for (std::int64_t factor = rigid ? 1 : common; factor > 1; --factor) {
      const bool fits = common % factor == 0 && std::ranges::all_of(members, [&](std::uint32_t each) {
                          const std::int64_t now = size(each) / factor;
                          return now >= std::max<std::int64_t>(2, std::min(least(each), kLeast)) && is_cut_as_before(each, now);
                        });
      if (!fits) continue;
      for (const std::uint32_t each : members) take(each, size(each) / factor);
      return;
    }
    for (const std::uint32_t each : members) {
      if (size(each) > kSmall) made_.held.emplace(each, "it is cut into pieces of unlike sizes, which have no smaller sizes in the same proportion");
    }
  }

  // All of them become smaller by as much.
  void shift(const std::vector<std::uint32_t>& members) {
    std::int64_t most = 0;
    for (const std::uint32_t each : members) {
      const auto fixed = classes_.fixed.find(each);
      if (fixed != classes_.fixed.end()) return hold(members, fixed->second);
      const std::int64_t less = size(each) <= kSmall ? 0 : std::max<std::int64_t>(0, size(each) - least(each));
      most = each == members.front() ? less : std::min(most, less);
    }
    const auto fits = [&](std::int64_t less) { return std::ranges::all_of(members, [&](std::uint32_t each) { return is_cut_as_before(each, size(each) - less); }); };
    std::int64_t& of_role = less_of_role_[roles_.at(members.front())];
    const bool as_others = of_role > 0 && of_role <= most && fits(of_role);
    std::int64_t less = as_others ? of_role : 0;
    std::int64_t tried = 0;
    for (std::int64_t here = most; !as_others && here > 0 && tried < kTries; --here) {
      if (!fits(here)) continue;
      ++tried;
      const bool is_new = std::ranges::none_of(members, [&](std::uint32_t each) { return used_.contains(size(each) - here); });
      if (less == 0 || is_new) less = here;
      if (is_new) break;
    }
    if (less == 0) return hold(members, members.size() > 1 ? "another size, from which it differs by little, can't be smaller" : "");
    of_role = less;
    for (const std::uint32_t each : members) take(each, size(each) - less);
  }

  void hold(const std::vector<std::uint32_t>& members, const std::string& why) {
    for (const std::uint32_t each : members) {
      used_.insert(size(each));
      if (size(each) <= kSmall) continue;
      made_.held.emplace(each, !why.empty() ? why : "it is cut into " + std::to_string(parts(each)) + " parts, and can't be smaller by as much as leaves two elements in each");
    }
  }

  void take(std::uint32_t of, std::int64_t now) {
    made_.sizes.emplace(of, now);
    used_.insert(now);
  }

  const SizeClasses& classes_;
  const std::map<std::uint32_t, std::int64_t> parts_;
  const std::map<std::uint32_t, std::string> roles_;
  const std::set<std::uint32_t> padded_;
  const std::int64_t devices_;
  std::map<std::string, std::int64_t> less_of_role_;
  std::map<std::uint32_t, std::uint32_t> group_of_;  // of classes that keep their differences
  std::set<std::uint32_t> rigid_;
  std::set<std::int64_t> used_;
  SmallSizes made_;
};

std::set<std::uint32_t> padded_classes(const AtomizedGraph& atoms, const SizeClasses& classes) {
  std::set<std::uint32_t> padded;
  for (ValueId value = 0; value < classes.of.size(); ++value) {
    for (std::size_t atom = 0; atom < classes.of[value].size(); ++atom) {
      if (atoms.values[value].paddable[atom]) padded.insert(classes.of[value][atom]);
    }
  }
  return padded;
}

// Where a class is met first, without the numbers of blocks and of nodes, and its size.
std::map<std::uint32_t, std::string> roles_of_classes(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes) {
  std::map<std::uint32_t, std::string> roles;
  for (const auto& [each, size] : classes.sizes) {
    std::string role = std::to_string(size) + " ";
    for (const char c : place_of_class(graph, atoms, classes, each)) {
      if (c < '0' || c > '9') role += c;
    }
    roles.emplace(each, std::move(role));
  }
  return roles;
}

}  // namespace

std::map<std::uint32_t, std::int64_t> parts_of_classes(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const std::vector<const Plan*>& stages) {
  std::map<std::uint32_t, std::int64_t> parts;
  std::unordered_map<std::string, ValueId> ids;
  for (ValueId id = 0; id < graph.values.size(); ++id) ids.emplace(graph.values[id].name, id);
  for (const Plan* plan : stages) {
    const CutCounter counted(*plan);
    for (ValueId id = 0; id < plan->graph().values.size(); ++id) {
      const auto found = ids.find(plan->graph().values[id].name);
      if (found == ids.end()) continue;
      const AtomShape &of_stage = plan->shape(id), &of_model = atoms.values[found->second];
      for (std::size_t d = 0; d < of_stage.atoms_of_dimension.size(); ++d) {
        std::size_t at = of_model.first_atom(d);
        const std::size_t end = at + of_model.atoms_of_dimension[d];
        // A stage may not see all cuts of the model: then what it cuts falls on the outer atoms first.
        const bool alike = of_stage.atoms_of_dimension[d] == of_model.atoms_of_dimension[d];
        for (std::size_t i = 0; i < of_stage.atoms_of_dimension[d]; ++i) {
          std::int64_t left = counted.parts(id, of_stage.first_atom(d) + i);
          for (; at < end; ++at) {
            const std::int64_t here = alike ? left : std::gcd(left, of_model.sizes[at]);
            std::int64_t& known = parts.try_emplace(classes.of[found->second][at], 1).first->second;
            known = std::lcm(known, here);
            left /= here;
            if (alike) break;
          }
          if (alike) ++at;
        }
      }
    }
  }
  return parts;
}

SmallSizes small_sizes(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, const std::vector<const Plan*>& stages) {
  return SizeChooser(classes, parts_of_classes(graph, atoms, classes, stages), roles_of_classes(graph, atoms, classes), padded_classes(atoms, classes), stages.front()->mesh.devices()).run();
}

std::string place_of_class(const Graph& graph, const AtomizedGraph& atoms, const SizeClasses& classes, std::uint32_t of) {
  const auto place_in = [&](ValueId value, const std::string& name) -> std::string {
    const AtomShape& shape = atoms.values[value];
    for (std::size_t atom = 0; atom < classes.of[value].size(); ++atom) {
      if (classes.of[value][atom] != of) continue;
      const std::size_t d = shape.dimension_of(atom);
      return (shape.atoms_of_dimension[d] > 1 ? "in dimension " : "dimension ") + std::to_string(d) + " of '" + name + "'";
    }
    return "";
  };
  for (const SourceKind kind : {SourceKind::user_input, SourceKind::parameter, SourceKind::buffer, SourceKind::constant}) {
    for (const Source& source : graph.sources) {
      if (source.kind != kind) continue;
      const std::string place = place_in(source.value, source.names.empty() ? graph.values[source.value].name : source.names.front());
      if (!place.empty()) return place;
    }
  }
  for (ValueId value = 0; value < graph.values.size(); ++value) {
    const std::string place = place_in(value, graph.values[value].name);
    if (!place.empty()) return place;
  }
  return "";
}

}  // namespace meshwright
