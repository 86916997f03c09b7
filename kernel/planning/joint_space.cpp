#include "joint_space.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "meshwright/recompute.h"
#include "meshwright/saved.h"

namespace meshwright {

JointSpace::JointSpace(const ProblemInput& input, const Problems& problems, const RecomputePins& pins)
    : input_(input), kept_(problems.kept), again_(problems.again), converted_(problems.converted), pins_(pins), owner_(storages(input.graph(), input.ops)) {
  find_asked();
  find_states();
  find_converted();
  find_times();
  add_variables();
  add_memory();
}

// --- what may run again, and when ---

bool JointSpace::is_view(std::uint32_t variable) const {
  const Variable& here = kept_.variables[variable];
  return here.kind == VariableKind::node && input_.model.backward->memory.nodes[here.node].view;
}

const ProblemEdge* JointSpace::followed(std::uint32_t variable) const {
  if (kept_.variables[variable].kind != VariableKind::fork && !is_view(variable)) return nullptr;
  const auto [first, last] = edges_to_.equal_range(variable);
  const auto edge = std::find_if(first, last, [&](const auto& e) { return kept_.edges[e.second].to_port == 0; });
  return edge == last ? nullptr : &kept_.edges[edge->second];
}

bool JointSpace::is_asked(std::uint32_t variable) const {
  const Variable& here = kept_.variables[variable];
  return here.kind == VariableKind::fork ? asked_[here.value] : std::ranges::any_of(input_.graph().nodes[here.node].results, [&](ValueId result) { return asked_[result]; });
}

// By a backward that takes it, or a view of it; and else, since what makes it would not run again, where it is all that is used of that.
void JointSpace::find_asked() {
  const Graph& graph = input_.graph();
  const std::vector<NodeBackward>& backward = input_.model.backward->memory.nodes;
  std::vector<int> uses(graph.values.size(), 0);
  asked_.assign(graph.values.size(), false);
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    const Node& node = graph.nodes[id];
    const bool shows = backward[id].view && std::ranges::any_of(node.results, [&](ValueId result) { return asked_[result]; });
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      ++uses[node.operands[port].value];
      if (backward[id].saves_operand[port] || shows) asked_[node.operands[port].value] = true;
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.results.size() != 1) continue;
    const bool view = backward[static_cast<std::size_t>(&node - graph.nodes.data())].view;
    if (!view || (uses[node.operands[0].value] == 1 && asked_[node.operands[0].value])) asked_[node.results[0]] = true;
  }
}

void JointSpace::find_states() {
  may_run_.assign(kept_.variables.size(), false);
  variable_of_.assign(input_.graph().nodes.size(), kNoId);
  for (std::uint32_t e = 0; e < kept_.edges.size(); ++e) edges_to_.emplace(kept_.edges[e].to, e);
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    const Variable& here = kept_.variables[i];
    if (here.kind == VariableKind::node) variable_of_[here.node] = i;
    const ProblemEdge* edge = followed(i);
    const bool runs = here.kind != VariableKind::node || again_.recomputation.runs(here.node);
    if (here.kind == VariableKind::fork || is_view(i)) may_run_[i] = runs && edge != nullptr && is_made(*edge);
    else may_run_[i] = here.kind == VariableKind::node && runs;
  }
}

bool JointSpace::is_convertible(const ProblemEdge& edge) const {
  const Variable& user = kept_.variables[edge.to];
  if (converted_ == nullptr || edge.of_parameter || user.kind != VariableKind::node || is_view(edge.to)) return false;
  const Recomputation& all = converted_->recomputation;
  const bool takes = all.converts(user.node, edge.to_port) || (all.makes(edge.value) && input_.model.backward->memory.nodes[user.node].saves_operand[edge.to_port]);
  return takes && !pins_.never_converts({user.node, edge.to_port});
}

// What shows a value that is made again is made again with it, and so are all that hand that on.
bool JointSpace::goes_on(const ProblemEdge& edge) const {
  return converted_->recomputation.makes(edge.value) && followed(edge.from) != nullptr;
}

JointSpace::Entry JointSpace::entry_of(std::uint32_t variable) const {
  const ProblemEdge* in = followed(variable);
  while (in != nullptr && goes_on(*in)) {
    variable = in->from;
    in = followed(variable);
  }
  return {variable, in};
}

void JointSpace::find_converted() {
  converts_.assign(kept_.variables.size(), false);
  for (const ProblemEdge& edge : kept_.edges) {
    if (!is_convertible(edge)) continue;
    const Entry entry = entry_of(edge.from);
    const VariableKind kind = kept_.variables[entry.variable].kind;
    if (kind != VariableKind::node && kind != VariableKind::fork) continue;
    if (entry.source == nullptr && (kind == VariableKind::fork || is_view(entry.variable))) continue;
    for (std::uint32_t variable = edge.from; !converts_[variable]; variable = followed(variable)->from) {
      converts_[variable] = true;
      if (variable == entry.variable) break;
    }
  }
}

// What an op makes again is needed at the latest when the first backward takes it that asks for it, or when what runs again from it does; at the earliest when all
// of its block runs again.
void JointSpace::find_times() {
  latest_.assign(kept_.variables.size(), 0);
  earliest_ = latest_;
  std::map<ValueId, std::uint32_t> last_saver;  // by owner
  std::map<ValueId, std::vector<std::uint32_t>> users;
  for (NodeId id = 0; id < variable_of_.size(); ++id) {
    if (variable_of_[id] == kNoId) continue;
    const Node& node = input_.graph().nodes[id];
    const NodeBackward& backward = input_.model.backward->memory.nodes[id];
    const auto save = [&](ValueId value) {
      std::uint32_t& last = last_saver.try_emplace(owner_[value], variable_of_[id]).first->second;
      last = std::max(last, variable_of_[id]);
    };
    for (std::uint32_t port = 0; port < node.results.size(); ++port) {
      if (backward.saves_result[port]) save(node.results[port]);
    }
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      if (backward.saves_operand[port]) save(node.operands[port].value);
      if (!backward.view) users[owner_[node.operands[port].value]].push_back(variable_of_[id]);
    }
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(may_run_.size()); i-- > 0;) {
    if (!may_run_[i] || kept_.variables[i].kind != VariableKind::node || is_view(i)) continue;
    const NodeId id = kept_.variables[i].node;
    earliest_[i] = backward_at(variable_of_[again_.recomputation.begin[id]]);
    std::optional<std::uint32_t> last;
    std::int32_t of_users = earliest_[i];
    for (const ValueId result : input_.graph().nodes[id].results) {
      if (!again_.recomputation.makes(result)) continue;
      if (const auto saver = last_saver.find(owner_[result]); saver != last_saver.end()) last = std::max(last.value_or(0), saver->second);
      for (const std::uint32_t user : users[owner_[result]]) {
        if (may_run_[user]) of_users = std::max(of_users, latest_[user]);
      }
    }
    latest_[i] = last ? backward_at(*last) : of_users;
  }
}

// --- costs ---

void JointSpace::add_variables() {
  frame_.fixed_bytes = kept_.space.fixed_bytes;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) frame_.nodes.push_back({kept_.space.nodes[i].name, std::vector<Ticks>(strategies(i) * states(i).count(), 0)});
}

StrategySpace JointSpace::priced(const StrategySpace& kept, const StrategySpace& again, const StrategySpace* converted) const {
  StrategySpace space = frame_;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    price_variable(i, kept.nodes[i].costs, again.nodes[i].costs, converted == nullptr ? nullptr : &converted->nodes[i].costs, space.nodes[i].costs);
  }
  const StrategySpace& last = converted == nullptr ? kept : *converted;
  std::map<EdgeKind, std::uint32_t> tables;
  for (std::uint32_t e = 0; e < kept_.edges.size(); ++e) {
    const EdgeKind kind = kind_of(e, kept.edges[e].table, again.edges[e].table, last.edges[e].table);
    const auto [known, is_new] = tables.try_emplace(kind, static_cast<std::uint32_t>(space.tables.size()));
    if (is_new) space.tables.push_back(edge_table(kind, kept.tables[kind.once], again.tables[kind.twice], last.tables[kind.converted]));
    space.edges.push_back({kept_.edges[e].from, kept_.edges[e].to, known->second});
  }
  return space;
}

void JointSpace::price_variable(std::uint32_t variable, const std::vector<Ticks>& kept, const std::vector<Ticks>& again, const std::vector<Ticks>* converted, std::vector<Ticks>& costs) const {
  const Variable& here = kept_.variables[variable];
  const bool op = here.kind == VariableKind::node && !is_view(variable), must_run = op && may_run_[variable] && pins_.must_run(here.node);
  const auto takers = sources_.find({variable, nullptr});
  for (std::uint32_t value = 0; value < costs.size(); ++value) {
    const std::size_t s = value % strategies(variable);
    switch (state_of(variable, value)) {
      case State::kept: costs[value] = must_run ? kForbidden : kept[s]; break;
      case State::again: costs[value] = op && pins_.never_runs(here.node) ? kForbidden : std::max(kept[s], again[s]); break;
      case State::converted: {
        const bool is_useless = takers != sources_.end() && takers->second.useless[s];
        costs[value] = must_run || is_useless || converted == nullptr ? kForbidden : std::max(kept[s], (*converted)[s]);
        break;
      }
    }
  }
}

JointSpace::EdgeKind JointSpace::kind_of(std::uint32_t number, std::uint32_t once, std::uint32_t twice, std::uint32_t converted) const {
  const ProblemEdge& edge = kept_.edges[number];
  const Variable& user = kept_.variables[edge.to];
  EdgeKind kind{once, twice, 0, states(edge.from), states(edge.to), edge.of_parameter, is_made(edge), false, false, false, false, false};
  const bool hands_on = user.kind == VariableKind::fork || is_view(edge.to);
  kind.follows = kind.made && hands_on && may_run_[edge.to];
  kind.asked = kind.follows && is_asked(edge.to);
  kind.saves = user.kind == VariableKind::node && input_.model.backward->memory.nodes[user.node].saves_operand[edge.to_port];
  if (kind.from.converted || kind.to.converted) {
    kind.converted = converted;
    kind.hands_on = hands_on && converts_[edge.to];
    kind.goes_on = kind.hands_on && goes_on(edge);
  }
  return kind;
}

StrategySpace JointSpace::least(const StrategySpace& kept, const StrategySpace& again) const {
  StrategySpace space;
  space.nodes = kept.nodes;
  space.tables = kept.tables;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> gathers;
  for (std::size_t e = 0; e < kept_.edges.size(); ++e) {
    SpaceEdge& edge = space.edges.emplace_back(kept.edges[e]);
    if (!kept_.edges[e].of_parameter) continue;
    const auto [known, is_new] = gathers.try_emplace({kept.edges[e].table, again.edges[e].table}, static_cast<std::uint32_t>(space.tables.size()));
    if (is_new) {
      CostTable& table = space.tables.emplace_back(kept.tables[kept.edges[e].table]);
      std::ranges::transform(table.costs, again.tables[again.edges[e].table].costs, table.costs.begin(), [](Ticks once, Ticks twice) { return std::min(once, twice); });
    }
    edge.table = known->second;
  }
  return space;
}

void JointSpace::forbid_above(TickSum most, const LeastCosts& costs, StrategySpace& space) const {
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    for (std::size_t state = 0; state < space.nodes[i].costs.size(); ++state) {
      if (costs[i][state % strategies(i)] > most) space.nodes[i].costs[state] = kForbidden;
    }
  }
}

// Gathers of a parameter for the backward are no more with what runs again, but may be sooner, whoever asks for it.
CostTable JointSpace::edge_table(const EdgeKind& kind, const CostTable& once, const CostTable& twice, const CostTable& converted) {
  CostTable table{once.rows * kind.from.count(), once.columns * kind.to.count(), {}};
  table.costs.reserve(std::size_t{table.rows} * table.columns);
  for (std::uint32_t row = 0; row < table.rows; ++row) {
    const State from = kind.from.at(row / once.rows);
    const bool made = kind.made && from == State::again;
    for (std::uint32_t column = 0; column < table.columns; ++column) {
      const State to = kind.to.at(column / once.columns);
      const bool runs = to == State::again, converts = from == State::converted || (to == State::converted && kind.hands_on);
      const std::size_t at = std::size_t{row % once.rows} * once.columns + column % once.columns;
      if (kind.follows && runs != made) table.costs.push_back(kForbidden);
      else if (kind.goes_on && (from == State::converted) != (to == State::converted)) table.costs.push_back(kForbidden);
      else if (kind.of_parameter) table.costs.push_back(std::min(once.costs[at], twice.costs[at]));
      else if (kind.follows && runs && !kind.asked) table.costs.push_back(once.costs[at]);
      else if (runs || (made && kind.saves)) table.costs.push_back(std::max(once.costs[at], twice.costs[at]));
      else table.costs.push_back(converts ? std::max(once.costs[at], converted.costs[at]) : once.costs[at]);
    }
  }
  return table;
}

// --- answers ---

std::vector<std::uint32_t> JointSpace::layouts(std::span<const std::uint32_t> answer) const {
  std::vector<std::uint32_t> made;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) made.push_back(answer[i] % static_cast<std::uint32_t>(strategies(i)));
  return made;
}

std::vector<bool> JointSpace::again(std::span<const std::uint32_t> answer) const {
  std::vector<bool> made;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) made.push_back(state_of(i, answer[i]) == State::again);
  return made;
}

std::vector<std::string> JointSpace::recomputed(std::span<const std::uint32_t> answer) const {
  std::vector<bool> ops(input_.graph().nodes.size(), false);
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    if (kept_.variables[i].kind == VariableKind::node && !is_view(i)) ops[kept_.variables[i].node] = state_of(i, answer[i]) == State::again;
  }
  std::set<NodeOperand> operands;
  for (const auto& [entry, takers] : sources_) {
    for (const ProblemEdge* edge : takers.edges) {
      if (state_of(edge->from, answer[edge->from]) != State::converted || state_of(edge->to, answer[edge->to]) == State::again) continue;
      const NodeId user = kept_.variables[edge->to].node;
      const std::vector<Operand>& taken = input_.graph().nodes[user].operands;
      for (std::uint32_t port = 0; port < taken.size(); ++port) {
        if (taken[port].value == edge->value && input_.model.backward->memory.nodes[user].saves_operand[port]) operands.emplace(user, port);
      }
    }
  }
  return recomputed_names(input_.model, ops, operands);
}

// Whether what a variable makes or hands on is converted again, where it does not run again itself. Of an answer, what comes before it.
bool JointSpace::is_converted(std::uint32_t variable, const Recomputation& recomputation, std::span<const std::uint32_t> answer) const {
  const Variable& here = kept_.variables[variable];
  const Entry entry = entry_of(variable);
  if (entry.variable != variable) return state_of(entry.variable, answer[entry.variable]) == State::converted;
  const auto known = sources_.find(entry);
  if (known == sources_.end()) return false;  // nothing is held of it for a backward
  const Takers& takers = known->second;
  const std::uint32_t source = entry.source == nullptr ? variable : entry.source->from;
  const bool is_elsewhere = entry.source != nullptr && state_of(source, answer[source]) == State::converted;
  if (!is_elsewhere && takers.useless[answer[source] % strategies(source)]) return false;
  if (here.kind == VariableKind::fork) return recomputation.makes(here.value) || recomputation.values_converted.contains(here.value);
  if (is_view(variable)) return recomputation.runs(here.node);
  return std::ranges::any_of(takers.edges, [&](const ProblemEdge* edge) { return recomputation.converts(kept_.variables[edge->to].node, edge->to_port); });
}

std::optional<std::vector<std::uint32_t>> JointSpace::answer(std::span<const std::uint32_t> layouts, const Recomputation& recomputation) const {
  std::vector<std::uint32_t> made(layouts.begin(), layouts.end());
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    const ProblemEdge* edge = followed(i);
    const bool is_op = kept_.variables[i].kind == VariableKind::node && !is_view(i);
    const bool runs = may_run_[i] && (is_op ? recomputation.runs(kept_.variables[i].node) : state_of(edge->from, made[edge->from]) == State::again);
    const auto each = static_cast<std::uint32_t>(strategies(i));
    if (runs) made[i] += each;
    else if (converts_[i] && is_converted(i, recomputation, made)) made[i] += each * (states(i).count() - 1);
  }
  return completed(made);
}

std::optional<std::vector<std::uint32_t>> JointSpace::completed(std::span<const std::uint32_t> variables) const {
  std::vector<std::uint32_t> answer(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(may_run_.size()));
  std::vector<std::vector<bool>> allowed;
  for (std::size_t node = answer.size(); node < frame_.nodes.size(); ++node) allowed.emplace_back(frame_.nodes[node].costs.size(), true);
  for (const SpaceEdge& tie : frame_.edges) {
    const CostTable& table = frame_.tables[tie.table];
    std::vector<bool>& values = allowed[tie.to - may_run_.size()];
    for (std::uint32_t v = 0; v < table.columns; ++v) values[v] = values[v] && table.costs[std::size_t{answer[tie.from]} * table.columns + v] < kForbidden;
  }
  for (const std::vector<bool>& values : allowed) {
    const auto value = std::ranges::find(values, true);
    if (value == values.end()) return std::nullopt;
    answer.push_back(static_cast<std::uint32_t>(value - values.begin()));
  }
  return answer;
}

}  // namespace meshwright
