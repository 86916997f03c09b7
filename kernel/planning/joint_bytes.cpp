// What a joint space holds: the bytes of its nodes, and the nodes of bytes that depend on two variables.
#include <algorithm>
#include <set>
#include <utility>

#include "joint_space.h"
#include "meshwright/recompute.h"

namespace meshwright {

namespace {

using Bytes = std::vector<std::int64_t>;

// The classes of strategies that are alike in their bytes: by strategy its class, and the bytes of each.
struct Classes {
  std::vector<std::uint32_t> of;
  std::vector<Bytes> bytes;  // by class: of each term

  // Of one term, by the value of a node whose first values are the classes; nothing of others.
  [[nodiscard]] Bytes by_value(std::size_t values) const {
    Bytes made(values, 0);
    for (std::size_t c = 0; c < bytes.size(); ++c) made[c] = bytes[c][0];
    return made;
  }
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

void JointSpace::add_memory() {
  std::map<std::pair<std::uint32_t, ValueId>, std::vector<SavedTerm>> saved;  // by variable and value
  std::set<std::uint32_t> by_choice;
  for (const SavedTerm& term : kept_.saved) {
    const std::uint32_t variable = kept_.space.memory[term.term].node;
    const ProblemEdge* edge = edge_of(variable, term.value);
    if (!may_run_[variable] && (edge == nullptr || (!is_made(*edge) && !is_converting(*edge)))) continue;
    saved[{variable, term.value}].push_back(term);
    by_choice.insert(term.term);
  }
  for (std::uint32_t t = 0; t < kept_.space.memory.size(); ++t) {
    const MemoryTerm& term = kept_.space.memory[t];
    if (!by_choice.contains(t)) hold(term.node, term.begin, term.end, in_states(term.node, term.bytes, term.bytes, term.bytes));
  }
  for (const auto& [saver, terms] : saved) add_saved(saver.first, saver.second, terms);
  add_kept_for_others();
  add_sources();
}

// The edge along which a variable takes a value; null if none does.
const ProblemEdge* JointSpace::edge_of(std::uint32_t variable, ValueId value) const {
  const auto [first, last] = edges_to_.equal_range(variable);
  for (auto e = first; e != last; ++e) {
    if (kept_.edges[e->second].value == value && !kept_.edges[e->second].of_parameter) return &kept_.edges[e->second];
  }
  return nullptr;
}

Bytes JointSpace::Share::of(Bytes bytes) const {
  for (std::int64_t& each : bytes) each = static_cast<std::int64_t>(static_cast<__int128>(each) * part / whole);
  return bytes;
}

void JointSpace::hold(std::uint32_t node, std::int32_t begin, std::int32_t end, Bytes bytes) {
  if (begin < end && std::ranges::any_of(bytes, [](std::int64_t b) { return b > 0; })) frame_.memory.push_back({node, begin, end, std::move(bytes)});
}

// By state and strategy.
Bytes JointSpace::in_states(std::uint32_t variable, const Bytes& kept, const Bytes& again, const Bytes& converted) const {
  Bytes made = kept;
  if (may_run_[variable]) made.insert(made.end(), again.begin(), again.end());
  if (converts_[variable]) made.insert(made.end(), converted.begin(), converted.end());
  return made;
}

// What a saver has from its forward on, or only from when it is made again: where it runs again itself, or what makes the value does, or converts it again. Of other
// microbatches in flight nothing is made again yet.
void JointSpace::add_saved(std::uint32_t variable, ValueId value, const std::vector<SavedTerm>& terms) {
  const ProblemEdge* edge = edge_of(variable, value);
  const bool made = edge != nullptr && is_made(*edge), converting = edge != nullptr && is_converting(*edge), runs = may_run_[variable];
  if (runs && edge != nullptr) keep_for(*edge, shares_of(*edge, terms, earliest_[variable]));
  if (converting) add_taker(*edge, shares_of(*edge, terms, backward_at(variable)));
  if (made || converting) {
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
    hold(variable, term.begin, late, in_states(variable, term.bytes, none, term.bytes));
    hold(variable, late, term.end, in_states(variable, term.bytes, term.bytes, term.bytes));
  }
}

// A view may show a part of what is kept for it.
void JointSpace::add_taker(const ProblemEdge& edge, std::vector<Share> shares) {
  const Entry entry = entry_of(edge.from);
  const std::int64_t whole = input_.graph().type(entry.source == nullptr ? edge.value : entry.source->value).bytes(), part = input_.graph().type(edge.value).bytes();
  Takers& takers = sources_[entry];
  takers.edges.push_back(&edge);
  for (Share& share : shares) {
    if (part < whole) share.whole *= part > 0 ? (whole + part - 1) / part : 1;
    takers.shares.push_back(share);
  }
}

// By a node with a value for whether the maker runs again or converts it again, whether the saver runs again, and each class of bytes.
void JointSpace::add_saved_of_made(const ProblemEdge& edge, const std::vector<SavedTerm>& terms) {
  const std::vector<MemoryTerm>& memory = kept_.space.memory;
  const States maker{is_made(edge), is_converting(edge)}, user{may_run_[edge.to], false};
  std::vector<Bytes> bytes;
  for (const SavedTerm& saved : terms) bytes.push_back(memory[saved.term].bytes);
  const Classes classes = classes_of(strategies(edge.to), bytes);
  const auto count = static_cast<std::uint32_t>(classes.bytes.size());
  const std::uint32_t values = maker.count() * user.count() * count;
  const std::uint32_t node = add_node(frame_.nodes[edge.to].name + " keeps " + input_.graph().values[edge.value].name, values);
  const auto maker_is = [&](std::uint32_t v) { return maker.at(v / count / user.count()); };
  const auto user_runs = [&](std::uint32_t v) { return user.at(v / count % user.count()) == State::again; };
  tie(edge.to, node, [&](std::uint32_t s, State state, std::uint32_t v) { return v % count == classes.of[s] && user_runs(v) == (state == State::again); });
  tie(edge.from, node, [&](std::uint32_t, State state, std::uint32_t v) {
    const bool matters = (state == State::again && maker.again) || (state == State::converted && maker.converted);
    return maker_is(v) == (matters ? state : State::kept);
  });
  const std::int32_t of_maker = maker.again ? latest_[variable_of_[input_.graph().values[owner_[edge.value]].producer]] : 0;
  const std::int32_t of_user = latest_[edge.to], of_backward = backward_at(edge.to);
  const auto late = [&](std::uint32_t v) {
    switch (maker_is(v)) {
      case State::again: return user_runs(v) ? std::min(of_maker, of_user) : of_maker;
      case State::converted: return user_runs(v) ? of_user : of_backward;
      case State::kept: break;
    }
    return user_runs(v) ? of_user : 0;
  };
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const MemoryTerm& term = memory[terms[t].term];
    std::vector<std::int32_t> moments = {term.begin, term.end};
    for (const std::int32_t moment : {of_maker, of_user, of_backward}) {
      if (moment > term.begin && moment < term.end) moments.push_back(moment);
    }
    std::ranges::sort(moments);
    for (std::size_t m = 0; m + 1 < moments.size(); ++m) {
      Bytes held(values, 0);
      for (std::uint32_t v = 0; v < values; ++v) {
        const bool there = terms[t].of_others ? maker_is(v) == State::kept && !user_runs(v) : moments[m] >= late(v);
        if (there) held[v] = classes.bytes[v % count][t];
      }
      hold(node, moments[m], moments[m + 1], std::move(held));
    }
  }
}

// Of what a user keeps, as its terms share it, until it is made again for it.
std::vector<JointSpace::Share> JointSpace::shares_of(const ProblemEdge& edge, const std::vector<SavedTerm>& terms, std::int32_t until) const {
  std::vector<Share> shares;
  const Bytes whole = bytes_taken(edge);
  const std::ptrdiff_t largest = std::ranges::max_element(whole) - whole.begin();
  const auto at = static_cast<std::size_t>(largest);
  for (const SavedTerm& saved : terms) {
    const MemoryTerm& term = kept_.space.memory[saved.term];
    const std::int32_t end = saved.of_others ? term.end : std::min(term.end, until);
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

// What an op takes that runs again is kept as it is made, unless it is made again too, or kept to be converted again.
void JointSpace::keep_for(const ProblemEdge& edge, const std::vector<Share>& shares) {
  const bool made = is_made(edge);
  if (kept_.variables[edge.from].kind == VariableKind::parameter || input_.graph().values[owner_[edge.value]].producer == kNoId) return;
  const Classes classes = classes_of(strategies(edge.from), {bytes_made(edge)});
  const auto count = static_cast<std::uint32_t>(classes.bytes.size());
  const std::uint32_t not_run = count, there_anyway = count + 1;
  const std::uint32_t node = add_node(frame_.nodes[edge.to].name + " takes " + input_.graph().values[edge.value].name, count + (made || converts_[edge.from] ? 2U : 1U));
  tie(edge.to, node, [&](std::uint32_t, State state, std::uint32_t v) { return (v != not_run) == (state == State::again); });
  tie(edge.from, node, [&](std::uint32_t s, State state, std::uint32_t v) {
    if (v == not_run) return true;
    return (made && state == State::again) || state == State::converted ? v == there_anyway : v == classes.of[s];
  });
  for (const Share& share : shares) hold(node, share.begin, share.end, share.of(classes.by_value(frame_.nodes[node].costs.size())));
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

// What is converted again is kept as its maker has it, for all that take it.
void JointSpace::add_sources() {
  for (auto& [entry, takers] : sources_) {
    if (entry.source == nullptr) hold_at_maker(entry.variable, takers);
    else hold_at_source(entry, takers);
  }
}

void JointSpace::hold_at_maker(std::uint32_t maker, Takers& takers) {
  const Bytes made = bytes_made(*takers.edges.front()), none(made.size(), 0);
  takers.useless = no_less(made, most_taken(takers));
  for (const Share& share : takers.shares) hold(maker, share.begin, share.end, in_states(maker, none, none, share.of(made)));
}

void JointSpace::hold_at_source(const Entry& entry, Takers& takers) {
  const ProblemEdge& source = *entry.source;
  const Bytes made = bytes_made(source);
  takers.useless = no_less(made, most_taken(takers));
  const Classes classes = classes_of(strategies(source.from), {made});
  const auto count = static_cast<std::uint32_t>(classes.bytes.size());
  const std::uint32_t not_converted = count, elsewhere = count + 1;  // a fork is converted again itself, and holds no more
  const std::uint32_t node = add_node(frame_.nodes[entry.variable].name + " converts " + input_.graph().values[source.value].name, count + (converts_[source.from] ? 2 : 1));
  tie(entry.variable, node, [&](std::uint32_t, State state, std::uint32_t v) { return (v != not_converted) == (state == State::converted); });
  tie(source.from, node, [&](std::uint32_t s, State state, std::uint32_t v) {
    if (v == not_converted) return true;
    return state == State::converted ? v == elsewhere : v == classes.of[s] && !takers.useless[s];
  });
  for (const Share& share : takers.shares) hold(node, share.begin, share.end, share.of(classes.by_value(frame_.nodes[node].costs.size())));
}

std::vector<bool> JointSpace::no_less(const Bytes& kept, std::int64_t taken) {
  std::vector<bool> made;
  for (const std::int64_t bytes : kept) made.push_back(bytes >= taken);
  return made;
}

std::int64_t JointSpace::most_taken(const Takers& takers) const {
  std::int64_t most = 0;
  for (const ProblemEdge* edge : takers.edges) most = std::max(most, std::ranges::max(bytes_taken(*edge)));
  return most;
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
    for (std::uint32_t column = 0; column < columns; ++column) table.costs.push_back(allows(row % each, state_of(variable, row), column) ? 0 : kForbidden);
  }
  const auto [known, is_new] = ties_.try_emplace({rows, columns, table.costs}, static_cast<std::uint32_t>(frame_.tables.size()));
  if (is_new) frame_.tables.push_back(std::move(table));
  frame_.edges.push_back({variable, node, known->second});
}

}  // namespace meshwright
