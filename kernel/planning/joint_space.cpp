#include "joint_space.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "meshwright/recompute.h"
#include "meshwright/saved.h"

namespace meshwright {

namespace {

using Bytes = std::vector<std::int64_t>;

// The classes of strategies that are alike in their bytes: by strategy its class, and the bytes of each.
struct Classes {
  std::vector<std::uint32_t> of;
  std::vector<Bytes> bytes;  // by class: of each term
};

Classes classes_of(std::size_t strategies, const std::vector<Bytes>& terms) {
  Classes made;
  std::map<Bytes, std::uint32_t> known;
  for (std::size_t s = 0; s < strategies; ++s) {
    Bytes of_all;
    for (const Bytes& term : terms) of_all.push_back(term[s]);
    const auto [found, is_new] = known.try_emplace(of_all, static_cast<std::uint32_t>(made.bytes.size()));
    if (is_new) made.bytes.push_back(std::move(of_all));
    made.of.push_back(found->second);
  }
  return made;
}

}  // namespace

JointSpace::JointSpace(const ProblemInput& input, const Problem& kept, const Problem& again, const RecomputePins& pins)
    : input_(input), kept_(kept), again_(again), pins_(pins), owner_(storages(input.graph(), input.ops)) {
  find_asked();
  find_states();
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
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) frame_.nodes.push_back({kept_.space.nodes[i].name, std::vector<Ticks>(strategies(i) * (may_run_[i] ? 2 : 1), 0)});
}

StrategySpace JointSpace::priced(const StrategySpace& kept, const StrategySpace& again) const {
  StrategySpace space = frame_;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    std::vector<Ticks>& costs = space.nodes[i].costs;
    std::ranges::copy(kept.nodes[i].costs, costs.begin());
    if (!may_run_[i]) continue;
    const Variable& here = kept_.variables[i];
    const bool op = here.kind == VariableKind::node && !is_view(i);
    for (std::size_t s = 0; s < strategies(i); ++s) {
      costs[strategies(i) + s] = op && pins_.never_runs(here.node) ? kForbidden : std::max(costs[s], again.nodes[i].costs[s]);
      if (op && pins_.must_run(here.node)) costs[s] = kForbidden;
    }
  }
  std::map<EdgeKind, std::uint32_t> tables;
  for (std::size_t e = 0; e < kept_.edges.size(); ++e) {
    const ProblemEdge& edge = kept_.edges[e];
    const Variable& user = kept_.variables[edge.to];
    const bool made = is_made(edge), follows = may_run_[edge.to] && (user.kind == VariableKind::fork || is_view(edge.to));
    const bool saves = user.kind == VariableKind::node && input_.model.backward->memory.nodes[user.node].saves_operand[edge.to_port];
    const EdgeKind kind{kept.edges[e].table, again.edges[e].table, edge.of_parameter, may_run_[edge.from], may_run_[edge.to], made, made && follows, made && follows && is_asked(edge.to), saves};
    const auto [known, is_new] = tables.try_emplace(kind, static_cast<std::uint32_t>(space.tables.size()));
    if (is_new) space.tables.push_back(edge_table(kind, kept.tables[kind.once], again.tables[kind.twice]));
    space.edges.push_back({edge.from, edge.to, known->second});
  }
  return space;
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
CostTable JointSpace::edge_table(const EdgeKind& kind, const CostTable& once, const CostTable& twice) {
  CostTable table{once.rows * (kind.from_states ? 2U : 1U), once.columns * (kind.to_states ? 2U : 1U), {}};
  table.costs.reserve(std::size_t{table.rows} * table.columns);
  for (std::uint32_t row = 0; row < table.rows; ++row) {
    const bool made = kind.made && row >= once.rows;
    for (std::uint32_t column = 0; column < table.columns; ++column) {
      const bool runs = column >= once.columns;
      const std::size_t at = std::size_t{row % once.rows} * once.columns + column % once.columns;
      if (kind.follows && runs != made) table.costs.push_back(kForbidden);
      else if (kind.of_parameter) table.costs.push_back(std::min(once.costs[at], twice.costs[at]));
      else if (kind.follows && !kind.asked) table.costs.push_back(once.costs[at]);
      else table.costs.push_back(runs || (made && kind.saves) ? std::max(once.costs[at], twice.costs[at]) : once.costs[at]);
    }
  }
  return table;
}

// --- bytes ---

void JointSpace::add_memory() {
  std::map<std::pair<std::uint32_t, ValueId>, std::vector<SavedTerm>> saved;  // by variable and value
  std::set<std::uint32_t> by_choice;
  for (const SavedTerm& term : kept_.saved) {
    const std::uint32_t variable = kept_.space.memory[term.term].node;
    const ProblemEdge* edge = edge_of(variable, term.value);
    if (!may_run_[variable] && (edge == nullptr || !is_made(*edge))) continue;
    saved[{variable, term.value}].push_back(term);
    by_choice.insert(term.term);
  }
  for (std::uint32_t t = 0; t < kept_.space.memory.size(); ++t) {
    const MemoryTerm& term = kept_.space.memory[t];
    if (!by_choice.contains(t)) hold(term.node, term.begin, term.end, in_states(term.node, term.bytes, term.bytes));
  }
  for (const auto& [saver, terms] : saved) add_saved(saver.first, saver.second, terms);
  add_kept_for_others();
}

// The edge along which a variable takes a value; null if none does.
const ProblemEdge* JointSpace::edge_of(std::uint32_t variable, ValueId value) const {
  const auto [first, last] = edges_to_.equal_range(variable);
  for (auto e = first; e != last; ++e) {
    if (kept_.edges[e->second].value == value && !kept_.edges[e->second].of_parameter) return &kept_.edges[e->second];
  }
  return nullptr;
}

void JointSpace::hold(std::uint32_t node, std::int32_t begin, std::int32_t end, Bytes bytes) {
  if (begin < end && std::ranges::any_of(bytes, [](std::int64_t b) { return b > 0; })) frame_.memory.push_back({node, begin, end, std::move(bytes)});
}

// By state and strategy.
Bytes JointSpace::in_states(std::uint32_t variable, const Bytes& kept, const Bytes& again) const {
  Bytes made = kept;
  if (may_run_[variable]) made.insert(made.end(), again.begin(), again.end());
  return made;
}

// What a saver has from its forward on, or only from when it is made again: where it runs again itself, or what makes the value does. Of other microbatches in flight
// nothing is made again yet.
void JointSpace::add_saved(std::uint32_t variable, ValueId value, const std::vector<SavedTerm>& terms) {
  const ProblemEdge* edge = edge_of(variable, value);
  const bool made = edge != nullptr && is_made(*edge), runs = may_run_[variable];
  if (runs && edge != nullptr) keep_for(*edge, shares_of(*edge, terms));
  if (made) {
    add_saved_of_made(*edge, terms);
    return;
  }
  const std::vector<ValueId>& results = input_.graph().nodes[kept_.variables[variable].node].results;
  const Value& saved_value = input_.graph().values[value];
  const bool is_result = std::ranges::find(results, value) != results.end(), is_remade = saved_value.requires_gradient || saved_value.producer == kNoId;
  const bool is_late = runs && (is_result ? again_.recomputation.makes(value) : is_remade);
  const Bytes none(strategies(variable), 0);
  for (const SavedTerm& saved : terms) {
    const MemoryTerm& term = kept_.space.memory[saved.term];
    const std::int32_t late = !is_late ? term.begin : saved.of_others ? term.end : std::clamp(latest_[variable], term.begin, term.end);
    hold(variable, term.begin, late, in_states(variable, term.bytes, none));
    hold(variable, late, term.end, in_states(variable, term.bytes, term.bytes));
  }
}

// By a node with a value for whether the maker runs again, whether the saver does, and each class of bytes.
void JointSpace::add_saved_of_made(const ProblemEdge& edge, const std::vector<SavedTerm>& terms) {
  const std::vector<MemoryTerm>& memory = kept_.space.memory;
  const bool runs = may_run_[edge.to];
  std::vector<Bytes> bytes;
  for (const SavedTerm& saved : terms) bytes.push_back(memory[saved.term].bytes);
  const Classes classes = classes_of(strategies(edge.to), bytes);
  const auto count = static_cast<std::uint32_t>(classes.bytes.size());
  const std::uint32_t user_states = runs ? 2 : 1, values = 2 * user_states * count;
  const std::uint32_t node = add_node(frame_.nodes[edge.to].name + " keeps " + input_.graph().values[edge.value].name, values);
  const auto maker_runs = [&](std::uint32_t v) { return v / count / user_states == 1; };
  const auto user_runs = [&](std::uint32_t v) { return v / count % user_states == 1; };
  tie(edge.to, node, [&](std::uint32_t s, bool again, std::uint32_t v) { return v % count == classes.of[s] && user_runs(v) == again; });
  tie(edge.from, node, [&](std::uint32_t, bool again, std::uint32_t v) { return maker_runs(v) == again; });
  const std::int32_t of_maker = latest_[variable_of_[input_.graph().values[owner_[edge.value]].producer]], of_user = latest_[edge.to];
  const auto late = [&](std::uint32_t v) {
    if (maker_runs(v)) return user_runs(v) ? std::min(of_maker, of_user) : of_maker;
    return user_runs(v) ? of_user : 0;
  };
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const MemoryTerm& term = memory[terms[t].term];
    std::vector<std::int32_t> moments = {term.begin, term.end};
    for (const std::int32_t moment : {of_maker, of_user}) {
      if (moment > term.begin && moment < term.end) moments.push_back(moment);
    }
    std::ranges::sort(moments);
    for (std::size_t m = 0; m + 1 < moments.size(); ++m) {
      Bytes held(values, 0);
      for (std::uint32_t v = 0; v < values; ++v) {
        const bool there = terms[t].of_others ? !maker_runs(v) && !user_runs(v) : moments[m] >= late(v);
        if (there) held[v] = classes.bytes[v % count][t];
      }
      hold(node, moments[m], moments[m + 1], std::move(held));
    }
  }
}

// Of what a user keeps, as its terms share it, until it runs again.
std::vector<JointSpace::Share> JointSpace::shares_of(const ProblemEdge& edge, const std::vector<SavedTerm>& terms) const {
  std::vector<Share> shares;
  const Bytes whole = bytes_taken(edge);
  const std::ptrdiff_t largest = std::ranges::max_element(whole) - whole.begin();
  const auto at = static_cast<std::size_t>(largest);
  for (const SavedTerm& saved : terms) {
    const MemoryTerm& term = kept_.space.memory[saved.term];
    const std::int32_t end = saved.of_others ? term.end : std::min(term.end, earliest_[edge.to]);
    if (whole[at] > 0) shares.push_back({term.bytes[at], whole[at], term.begin, end});
  }
  return shares;
}

// What a user takes along an edge, as it takes it; and as it is made.
Bytes JointSpace::bytes_taken(const ProblemEdge& edge) const {
  Bytes made;
  for (const Strategy& strategy : kept_.variables[edge.to].set->strategies) made.push_back(bytes_of(strategy.operand(edge.to_port).value, edge.value));
  return made;
}

Bytes JointSpace::bytes_made(const ProblemEdge& edge) const {
  const Variable& maker = kept_.variables[edge.from];
  const bool own = maker.kind == VariableKind::node && input_.atoms().nodes[maker.node].rule.results[edge.from_port].own;
  Bytes made;
  for (const Strategy& strategy : maker.set->strategies) {
    const std::int64_t bytes = bytes_of(strategy.result(edge.from_port).value, edge.value);
    made.push_back(own ? static_cast<std::int64_t>(static_cast<double>(bytes) * strategy.node()->own_share) : bytes);
  }
  return made;
}

// Of a storage that a value shows, an expanded one less than the value has.
std::int64_t JointSpace::bytes_of(const Layout& layout, ValueId value) const {
  const std::int64_t bytes = input_.graph().type(value).bytes(), whole = input_.graph().type(owner_[value]).bytes();
  const std::int64_t local = local_bytes(layout, input_.atoms().values[value], input_.mesh, size_bytes(input_.graph().type(value).dtype));
  return whole < bytes ? static_cast<std::int64_t>(static_cast<__int128>(local) * whole / bytes) : local;
}

// What an op takes that runs again is kept as it is made, unless it is made again too.
void JointSpace::keep_for(const ProblemEdge& edge, const std::vector<Share>& shares) {
  const bool made = is_made(edge);
  if (kept_.variables[edge.from].kind == VariableKind::parameter || input_.graph().values[owner_[edge.value]].producer == kNoId) return;
  const Classes classes = classes_of(strategies(edge.from), {bytes_made(edge)});
  const auto count = static_cast<std::uint32_t>(classes.bytes.size());
  const std::uint32_t not_run = count, made_again = count + 1;
  const std::uint32_t node = add_node(frame_.nodes[edge.to].name + " takes " + input_.graph().values[edge.value].name, count + (made ? 2U : 1U));
  tie(edge.to, node, [&](std::uint32_t, bool again, std::uint32_t v) { return (v != not_run) == again; });
  tie(edge.from, node, [&](std::uint32_t s, bool again, std::uint32_t v) {
    if (v == not_run) return true;
    return made && again ? v == made_again : v == classes.of[s];
  });
  for (const Share& share : shares) {
    Bytes held;
    for (const Bytes& bytes : classes.bytes) held.push_back(static_cast<std::int64_t>(static_cast<__int128>(bytes[0]) * share.part / share.whole));
    held.resize(frame_.nodes[node].costs.size(), 0);
    hold(node, share.begin, share.end, std::move(held));
  }
}

// What nobody keeps for a backward, but for what runs again; once the forward is over.
void JointSpace::add_kept_for_others() {
  std::set<ValueId> saved;  // owners
  for (const SavedTerm& term : kept_.saved) saved.insert(owner_[term.value]);
  std::map<ValueId, std::vector<const ProblemEdge*>> users;  // that may run again
  for (const ProblemEdge& edge : kept_.edges) {
    const ValueId owner = owner_[edge.value];
    const bool runs = may_run_[edge.to] && kept_.variables[edge.to].kind == VariableKind::node && !is_view(edge.to);
    if (runs && !edge.of_parameter && !saved.contains(owner)) users[owner].push_back(&edge);
  }
  for (const auto& [owner, edges] : users) {
    for (const ProblemEdge* edge : edges) keep_for(*edge, {{1, static_cast<std::int64_t>(edges.size()), static_cast<std::int32_t>(kept_.variables.size()), earliest_[edge->to]}});
  }
}

std::uint32_t JointSpace::add_node(std::string name, std::size_t values) {
  frame_.nodes.push_back({std::move(name), std::vector<Ticks>(values, 0)});
  return static_cast<std::uint32_t>(frame_.nodes.size() - 1);
}

template <class Allows>
void JointSpace::tie(std::uint32_t variable, std::uint32_t node, Allows allows) {
  const auto rows = static_cast<std::uint32_t>(frame_.nodes[variable].costs.size()), columns = static_cast<std::uint32_t>(frame_.nodes[node].costs.size());
  const auto each = static_cast<std::uint32_t>(strategies(variable));
  CostTable table{rows, columns, {}};
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t column = 0; column < columns; ++column) table.costs.push_back(allows(row % each, row >= each, column) ? 0 : kForbidden);
  }
  const auto [known, is_new] = ties_.try_emplace({rows, columns, table.costs}, static_cast<std::uint32_t>(frame_.tables.size()));
  if (is_new) frame_.tables.push_back(std::move(table));
  frame_.edges.push_back({variable, node, known->second});
}

// --- answers ---

std::vector<std::uint32_t> JointSpace::layouts(std::span<const std::uint32_t> answer) const {
  std::vector<std::uint32_t> made;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) made.push_back(answer[i] % static_cast<std::uint32_t>(strategies(i)));
  return made;
}

std::vector<bool> JointSpace::again(std::span<const std::uint32_t> answer) const {
  std::vector<bool> made;
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) made.push_back(answer[i] >= strategies(i));
  return made;
}

std::vector<std::string> JointSpace::recomputed(std::span<const std::uint32_t> answer) const {
  std::vector<bool> ops(input_.graph().nodes.size(), false);
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    if (kept_.variables[i].kind == VariableKind::node && !is_view(i)) ops[kept_.variables[i].node] = answer[i] >= strategies(i);
  }
  return recomputed_names(input_.model, ops);
}

std::optional<std::vector<std::uint32_t>> JointSpace::answer(std::span<const std::uint32_t> layouts, const Recomputation& recomputation) const {
  std::vector<std::uint32_t> made(layouts.begin(), layouts.end());
  for (std::uint32_t i = 0; i < may_run_.size(); ++i) {
    if (!may_run_[i]) continue;
    const ProblemEdge* edge = followed(i);
    const bool runs = edge != nullptr ? made[edge->from] >= strategies(edge->from) : recomputation.runs(kept_.variables[i].node);
    if (runs) made[i] += static_cast<std::uint32_t>(strategies(i));
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
