#include "graph_nodes.h"

#include <algorithm>

namespace meshwright::tap {

namespace {

class Trimmer {
 public:
  Trimmer(const ProblemInput& input, const Problem& problem)
      : input_(input), problem_(problem), in_(problem.variables.size()), out_(problem.variables.size()),
        parameter_(problem.variables.size(), kNoId), at_(problem.variables.size(), kNoId), sources_(problem.variables.size()) {
    for (std::uint32_t i = 0; i < problem.edges.size(); ++i) {
      in_[problem.edges[i].to].push_back(i);
      out_[problem.edges[i].from].push_back(i);
    }
  }

  TrimmedGraph run() {
    for (std::uint32_t v = 0; v < problem_.variables.size(); ++v) visit(v);
    find_owners();
    for (const std::uint32_t parameter : parameter_) trimmed_.is_weight.push_back(parameter != kNoId);
    return std::move(trimmed_);
  }

 private:
  const ProblemEdge& edge(std::uint32_t id) const { return problem_.edges[id]; }
  const Variable& variable(std::uint32_t v) const { return problem_.variables[v]; }

  void visit(std::uint32_t v) {
    if (variable(v).kind == VariableKind::parameter) {
      parameter_[v] = v;
      return;
    }
    std::vector<std::uint32_t>& sources = sources_[v];
    for (const std::uint32_t e : in_[v]) {
      const std::uint32_t from = edge(e).from;
      if (at_[from] != kNoId) sources.push_back(at_[from]);
      else sources.insert(sources.end(), sources_[from].begin(), sources_[from].end());
    }
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    const std::uint32_t weight = weight_edge(v);
    if (weight != kNoId) {
      at_[v] = static_cast<std::uint32_t>(trimmed_.nodes.size());
      trimmed_.nodes.push_back({v, edge(weight).to_port, scope_of(v, weight), kind_of(v), sources});
    } else {
      parameter_[v] = made_of_parameters(v);
    }
  }

  // The edge over which an op gets the largest weight that makes it a GraphNode; kNoId if none does.
  std::uint32_t weight_edge(std::uint32_t v) const {
    std::uint32_t best = kNoId;
    std::int64_t most = 0;
    if (variable(v).kind != VariableKind::node) return kNoId;
    for (const std::uint32_t e : in_[v]) {
      if (parameter_[edge(e).from] == kNoId || !loses_a_dimension(v, edge(e))) continue;
      const std::int64_t elements = input_.graph().type(edge(e).value).elements();
      if (elements > most) most = elements, best = e;
    }
    return best;
  }

  // Whether the operand has two dimensions or more, one of which no result has: it is summed over, or looked up in.
  bool loses_a_dimension(std::uint32_t v, const ProblemEdge& weight) const {
    const Rule& rule = input_.atoms().nodes[variable(v).node].rule;
    const auto& dimensions = rule.operands[weight.to_port].dimensions;
    const auto in_result = [&](FactorId factor) {
      return std::any_of(rule.results.begin(), rule.results.end(), [&](const TensorRule& result) {
        return std::any_of(result.dimensions.begin(), result.dimensions.end(), [&](const std::vector<FactorId>& dimension) {
          return std::find(dimension.begin(), dimension.end(), factor) != dimension.end();
        });
      });
    };
    std::size_t real = 0, lost = 0;
    for (const std::vector<FactorId>& dimension : dimensions) {
      real += dimension.empty() ? 0 : 1;
      lost += std::any_of(dimension.begin(), dimension.end(), [&](FactorId factor) { return !in_result(factor); }) ? 1 : 0;
    }
    return real >= 2 && lost > 0;
  }

  // The largest parameter that it is a view, a cast or another function of, if it depends on nothing else that is differentiable
  // and on no data; kNoId otherwise.
  std::uint32_t made_of_parameters(std::uint32_t v) const {
    if (in_[v].empty()) return kNoId;
    const bool is_node = variable(v).kind == VariableKind::node;
    if (is_node && input_.graph().nodes[variable(v).node].operands.size() != in_[v].size()) return kNoId;
    std::uint32_t largest = kNoId;
    std::int64_t most = -1;
    for (const std::uint32_t e : in_[v]) {
      const std::uint32_t from = parameter_[edge(e).from];
      if (from == kNoId) return kNoId;
      const std::int64_t elements = input_.graph().type(variable(from).value).elements();
      if (elements > most) most = elements, largest = from;
    }
    return largest;
  }

  // The module that calls the op; where that has no name, what holds the weight.
  std::string scope_of(std::uint32_t v, std::uint32_t weight) const {
    const Node& node = input_.graph().nodes[variable(v).node];
    if (!node.module_path.empty()) return node.module_path;
    const std::string& name = variable(parameter_[edge(weight).from]).name;
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(0, dot);
  }

  // Not the number of its set of strategies: that tells ops apart by the constants that they read.
  std::string kind_of(std::uint32_t v) const {
    const Node& node = input_.graph().nodes[variable(v).node];
    const AtomizedNode& atoms = input_.atoms().nodes[variable(v).node];
    std::string kind = node.op + " " + to_string(atoms.rule);
    for (const auto& factor : atoms.factor_atoms) {
      kind += " ";
      for (const std::int64_t atom : factor) kind += std::to_string(atom) + ".";
    }
    std::vector<bool> is_weight(node.operands.size(), false);
    for (const std::uint32_t e : in_[v]) is_weight[edge(e).to_port] = parameter_[edge(e).from] != kNoId;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& value = input_.graph().values[node.operands[i].value];
      kind += " " + to_string(value.type) + (is_weight[i] ? "w" : value.requires_gradient ? "g" : "");
    }
    return kind;
  }

  // Auxiliary variables follow the last GraphNode that they depend on; those before the first one, parameters among them, the
  // first one that depends on them.
  void find_owners() {
    std::vector<std::uint32_t>& owner = trimmed_.owner;
    owner.assign(problem_.variables.size(), kNoId);
    for (std::uint32_t v = 0; v < owner.size(); ++v) owner[v] = at_[v] != kNoId || sources_[v].empty() ? at_[v] : sources_[v].back();
    for (std::uint32_t v = static_cast<std::uint32_t>(owner.size()); v-- > 0;) {
      if (owner[v] != kNoId) continue;
      for (const std::uint32_t e : out_[v]) owner[v] = std::min(owner[v], owner[edge(e).to]);
    }
  }

  const ProblemInput& input_;
  const Problem& problem_;
  std::vector<std::vector<std::uint32_t>> in_, out_;  // edges by variable
  std::vector<std::uint32_t> parameter_;              // what a variable that depends on parameters alone is made of
  std::vector<std::uint32_t> at_;                     // the GraphNode that a variable is
  std::vector<std::vector<std::uint32_t>> sources_;   // the last GraphNodes on the ways to a variable
  TrimmedGraph trimmed_;
};

}  // namespace

TrimmedGraph trim(const ProblemInput& input, const Problem& problem) { return Trimmer(input, problem).run(); }

}  // namespace meshwright::tap
