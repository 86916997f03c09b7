#include "meshwright/atoms.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <set>

#include "rule/foreign_gradient.h"

namespace meshwright {

namespace {

// The cuts of one dimension or factor of `size`: proper divisors, ascending, each dividing the next. A cut c says that
// the innermost c positions belong together.
struct Cuts {
  std::int64_t size = 1;
  std::vector<std::int64_t> at;
  bool closed = false;  // takes no further cut

  // False if the cut cannot stand with the others. `changed` is set if it is new.
  bool add(std::int64_t cut, bool& changed) {
    if (cut <= 1 || cut >= size) return size % std::max<std::int64_t>(cut, 1) == 0;
    if (size % cut != 0) return false;
    const auto place = std::lower_bound(at.begin(), at.end(), cut);
    if (place != at.end() && *place == cut) return true;
    if (closed) return false;
    if (place != at.end() && *place % cut != 0) return false;
    if (place != at.begin() && cut % *(place - 1) != 0) return false;
    at.insert(place, cut);
    changed = true;
    return true;
  }

  // Sizes of the atoms, major to minor; none for a size of 1.
  [[nodiscard]] std::vector<std::int64_t> atoms() const {
    std::vector<std::int64_t> sizes;
    std::int64_t outer = size;
    for (auto cut = at.rbegin(); cut != at.rend(); ++cut) {
      sizes.push_back(outer / *cut);
      outer = *cut;
    }
    if (outer != 1) sizes.push_back(outer);
    return sizes;
  }
};

class Atomizer {
 public:
  Atomizer(const Graph& graph, const OpTable& ops, const AtomizedGraph& begun, std::vector<ValueId> like)
      : graph_(graph), ops_(ops), begun_(begun), like_(std::move(like)) {}

  Result<AtomizedGraph> run() {
    if (Status status = make_rules(); !status) return status.error();
    cut_to_fixpoint();
    read_atoms();
    join_classes();
    mark_paddable();
    return std::move(result_);
  }

 private:
  Status make_rules() {
    std::set<std::string> warned;
    result_.nodes = begun_.nodes;
    for (NodeId id = first_new(); id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      const OpCall call = make_call(graph_, node);
      AtomizedNode& made = result_.nodes.emplace_back();
      const OpFamily* family = ops_.find(node.op);
      std::string problem = family ? why_unruled(*family, call) : "no op family serves it";
      if (problem.empty()) {
        Result<Rule> rule = family->rule(call);
        if (rule) {
          Result<OpCost> cost = family->cost(call, *rule);
          if (!cost) return cost.error();
          made.rule = std::move(*rule);
          made.cost = std::move(*cost);
          continue;
        }
        if (rule.error().code != ErrorCode::bad_input) return rule.error();
        // Only the planner makes such a call, and always with a rule: this one was written by somebody else.
        if (node.op.starts_with("meshwright.")) return rule.error();
        problem = rule.error().message;
      }
      made.rule = replicated_rule(call.operands, call.results);
      made.ruled = false;
      if (warned.insert(node.op).second) {
        result_.warnings.push_back(node.op + " runs replicated: " + problem + " (first at '" + node.name + "' in '" +
                                   node.module_path + "')");
      }
    }
    return Done{};
  }

  // What a rule would not be enough for: empty if nothing.
  std::string why_unruled(const OpFamily& family, const OpCall& call) const {
    if (has_complex(call)) return "its numbers are complex";
    const auto is_wanted = [&](ValueId id) { return graph_.values[id].requires_gradient; };
    if (!std::ranges::any_of(call.node.results, is_wanted)) return "";
    std::vector<bool> wanted;
    for (const Operand& operand : call.node.operands) wanted.push_back(is_wanted(operand.value));
    return states_gradient(family, call, wanted) ? "" : "its op family states no gradient for this call";
  }

  // Carries cuts between dimensions and factors until nothing changes. Cuts and whole marks only grow, so it ends.
  void cut_to_fixpoint() {
    for (const Value& value : graph_.values) {
      auto& dimensions = dimension_cuts_.emplace_back();
      for (const std::int64_t size : value.type.shape) dimensions.push_back({size, {}});
    }
    for (ValueId value = 0; value < begun_.values.size(); ++value) close(value);
    for (const AtomizedNode& node : result_.nodes) {
      auto& factors = factor_cuts_.emplace_back();
      for (const Factor& factor : node.rule.factors) factors.push_back({factor.size, {}});
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (NodeId id = first_new(); id < graph_.nodes.size(); ++id) changed |= visit(id);
      for (NodeId id = static_cast<NodeId>(graph_.nodes.size()); id-- > first_new();) changed |= visit(id);
    }
  }

  [[nodiscard]] NodeId first_new() const { return static_cast<NodeId>(begun_.nodes.size()); }

  // The cuts of a value of the graph that was begun.
  void close(ValueId value) {
    const AtomShape& shape = begun_.values[value];
    for (std::size_t d = 0; d < dimension_cuts_[value].size(); ++d) {
      Cuts& cuts = dimension_cuts_[value][d];
      cuts.closed = true;
      const std::size_t first = shape.first_atom(d);
      std::int64_t inner = 1;
      for (std::size_t atom = first + shape.atoms_of_dimension[d]; atom-- > first + 1;) cuts.at.push_back(inner *= shape.sizes[atom]);
    }
  }

  bool visit(NodeId id) {
    bool changed = false;
    for_each_tensor(id, [&](const TensorRule& tensor, ValueId value) {
      for (std::size_t d = 0; d < tensor.dimensions.size(); ++d) {
        exchange(id, tensor.dimensions[d], dimension_cuts_[like_[value]][d], changed);
      }
    });
    return changed;
  }

  void exchange(NodeId id, const std::vector<FactorId>& factors, Cuts& dimension, bool& changed) {
    Rule& rule = result_.nodes[id].rule;
    std::int64_t inner = 1;
    bool stands = true;
    for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
      Cuts& cuts = factor_cuts_[id][*factor];
      // The factor's own edges cut the dimension, whether it is whole or not.
      stands &= dimension.add(inner, changed) && dimension.add(inner * cuts.size, changed);
      if (!stands) break;
      if (!rule.factors[*factor].whole) {
        for (const std::int64_t cut : std::vector<std::int64_t>(cuts.at)) stands &= dimension.add(cut * inner, changed);
        for (const std::int64_t cut : dimension.at) {
          if (cut > inner && cut < inner * cuts.size) stands &= cuts.add(cut / inner, changed);
        }
        if (!stands) break;
      }
      inner *= cuts.size;
    }
    if (stands) return;
    for (const FactorId factor : factors) {
      changed |= !rule.factors[factor].whole;
      rule.factors[factor].whole = true;
    }
  }

  void read_atoms() {
    for (const ValueId value : like_) {
      AtomShape& shape = result_.values.emplace_back();
      for (const Cuts& cuts : dimension_cuts_[value]) {
        const std::vector<std::int64_t> atoms = cuts.atoms();
        shape.sizes.insert(shape.sizes.end(), atoms.begin(), atoms.end());
        shape.atoms_of_dimension.push_back(static_cast<std::uint8_t>(atoms.size()));
      }
      shape.paddable.assign(shape.sizes.size(), false);
    }
    for (NodeId id = first_new(); id < graph_.nodes.size(); ++id) {
      for (const Cuts& cuts : factor_cuts_[id]) result_.nodes[id].factor_atoms.push_back(cuts.atoms());
    }
  }

  // Numbers the atoms of all values, then joins those that a rule says are the same.
  void join_classes() {
    std::uint32_t next = 0;
    for (const AtomShape& shape : result_.values) {
      auto& classes = result_.classes.emplace_back(shape.sizes.size());
      std::iota(classes.begin(), classes.end(), next);
      next += static_cast<std::uint32_t>(shape.sizes.size());
    }
    parent_.resize(next);
    std::iota(parent_.begin(), parent_.end(), 0U);
    tolerant_.assign(next, true);
    for (ValueId value = 0; value < like_.size(); ++value) result_.classes[value] = std::vector(result_.classes[like_[value]]);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) join_node(id);
    for (auto& classes : result_.classes) {
      for (std::uint32_t& atom : classes) atom = find(atom);
    }
  }

  void join_node(NodeId id) {
    const AtomizedNode& node = result_.nodes[id];
    std::map<std::pair<FactorId, std::size_t>, std::uint32_t> first;
    for_each_tensor(id, [&](const TensorRule& tensor, ValueId value) {
      std::vector<bool> seen(result_.values[value].sizes.size(), false);
      for (FactorId factor = 0; factor < node.rule.factors.size(); ++factor) {
        if (node.rule.factors[factor].whole) continue;
        for (std::size_t atom = 0; atom < node.factor_atoms[factor].size(); ++atom) {
          const std::uint32_t at = find_atom(node, tensor, result_.values[value], factor, atom);
          if (at == kNoId) continue;
          seen[at] = true;
          const std::uint32_t number = result_.classes[value][at];
          if (!node.rule.factors[factor].pads) tolerant_[number] = false;
          const auto [found, inserted] = first.try_emplace({factor, atom}, number);
          if (!inserted) parent_[find(number)] = find(found->second);
        }
      }
      for (std::size_t at = 0; at < seen.size(); ++at) {
        if (!seen[at]) tolerant_[result_.classes[value][at]] = false;  // under a whole factor
      }
    });
  }

  // A class may be padded if it is a whole dimension of a parameter and every op that meets it can bear that.
  void mark_paddable() {
    std::vector<bool> parameter(parent_.size(), false), intolerant(parent_.size(), false);
    std::uint32_t number = 0;
    for (const AtomShape& shape : result_.values) {
      for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom, ++number) {
        if (!tolerant_[number]) intolerant[find(number)] = true;
      }
    }
    for (const Source& source : graph_.sources) {
      if (source.kind != SourceKind::parameter) continue;
      const AtomShape& shape = result_.values[source.value];
      for (std::size_t d = 0; d < shape.atoms_of_dimension.size(); ++d) {
        if (shape.atoms_of_dimension[d] == 1) parameter[result_.classes[source.value][shape.first_atom(d)]] = true;
      }
    }
    for (ValueId value = 0; value < result_.values.size(); ++value) {
      AtomShape& shape = result_.values[value];
      for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
        const std::uint32_t of = result_.classes[value][atom];
        shape.paddable[atom] = parameter[of] && !intolerant[of];
      }
    }
  }

  std::uint32_t find(std::uint32_t atom) {
    while (parent_[atom] != atom) atom = parent_[atom] = parent_[parent_[atom]];
    return atom;
  }

  template <class Visit>
  void for_each_tensor(NodeId id, Visit visit) {
    const Node& node = graph_.nodes[id];
    const Rule& rule = result_.nodes[id].rule;
    for (std::size_t i = 0; i < node.operands.size(); ++i) visit(rule.operands[i], node.operands[i].value);
    for (std::size_t i = 0; i < node.results.size(); ++i) visit(rule.results[i], node.results[i]);
  }

  const Graph& graph_;
  const OpTable& ops_;
  const AtomizedGraph& begun_;
  const std::vector<ValueId> like_;
  AtomizedGraph result_;
  std::vector<std::vector<Cuts>> dimension_cuts_;  // by value and dimension
  std::vector<std::vector<Cuts>> factor_cuts_;     // by node and factor
  std::vector<std::uint32_t> parent_;              // union-find over all atoms of all values
  std::vector<bool> tolerant_;                     // by atom number: no rule at this value forbids padding
};

}  // namespace

Result<AtomizedGraph> atomize(const Graph& graph, const OpTable& ops) {
  std::vector<ValueId> each(graph.values.size());
  std::iota(each.begin(), each.end(), ValueId{0});
  return atomize_further(graph, {}, ops, each);
}

Result<AtomizedGraph> atomize_further(const Graph& graph, const AtomizedGraph& begun, const OpTable& ops,
                                      const std::vector<ValueId>& like) {
  return Atomizer(graph, ops, begun, like).run();
}

std::uint32_t find_atom(const AtomizedNode& node, const TensorRule& tensor, const AtomShape& shape, FactorId factor,
                        std::size_t atom) {
  for (std::size_t d = 0; d < tensor.dimensions.size(); ++d) {
    std::int64_t outside = 1;  // the product of the factors before
    for (const FactorId here : tensor.dimensions[d]) {
      if (here != factor) {
        outside *= node.rule.factors[here].size;
        continue;
      }
      // The factor's atoms begin where the dimension's outer atoms make up `outside`: its edge is a cut.
      std::size_t at = shape.first_atom(d);
      for (std::int64_t product = 1; product < outside; ++at) product *= shape.sizes[at];
      return static_cast<std::uint32_t>(at + atom);
    }
  }
  return kNoId;
}

}  // namespace meshwright
