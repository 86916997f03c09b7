#include "kept_space.h"

#include <algorithm>
#include <utility>

#include "meshwright/saved.h"

namespace meshwright {

namespace {

constexpr double kPreference = 1'000'000;  // by such a part of it the first op takes less than the last one, if they are alike

// States of a storage; one that is only kept for others has the first two, and one that no backward takes larger than it is made all but the last.
constexpr std::size_t kKept = 1, kMadeAgain = 2, kConverted = 3;  // 0: dropped

// By the state of a storage and whether an op runs again: what is made again is made by its op.
CostTable makes(std::size_t states) {
  CostTable table{static_cast<std::uint32_t>(states), 2, std::vector<Ticks>(2 * states, 0)};
  table.costs[2 * kMadeAgain] = kForbidden;
  return table;
}

// What an op takes that runs again is not dropped, and is converted once more; so is what is made again, or converted again, where only its backward takes it. What is
// converted again for some op is so because that does not run again.
CostTable needs(std::size_t states, Ticks runs, Ticks saves, std::optional<Ticks> converts) {
  CostTable table{static_cast<std::uint32_t>(states), 2, {0, kForbidden, 0, runs, saves, runs, converts.value_or(0), converts ? kForbidden : runs}};
  table.costs.resize(2 * states);
  return table;
}

}  // namespace

std::vector<const KeptSpace::Copy*> KeptSpace::Storage::larger() const {
  std::int64_t most = 0;
  for (const auto& [layout, bytes] : made) most = std::max(most, bytes);
  std::vector<const Copy*> found;
  for (const auto& [layout, copy] : copies) {
    if (!copy.of_others && copy.bytes > most) found.push_back(&copy);
  }
  return found;
}

bool KeptSpace::Storage::converts(const NodeOperand& operand) const {
  return std::ranges::any_of(larger(), [&](const Copy* copy) { return copy->convertible.contains(operand); });
}

KeptSpace::KeptSpace(const ProblemInput& input, const Problems& problems, const RecomputePins& pins, std::span<const std::uint32_t> choice)
    : input_(input),
      kept_(problems.kept),
      again_(problems.again),
      converted_(problems.converted),
      pins_(pins),
      choice_(choice),
      blocks_(blocks_of(input.model)),
      convertible_(convertible_operands(input.model)),
      taken_off_(2 * kept_.variables.size() + 2, 0) {
  for (std::uint32_t i = 0; i < kept_.variables.size(); ++i) {
    if (kept_.variables[i].kind == VariableKind::node) variable_of_[kept_.variables[i].node] = i;
  }
  for (std::uint32_t e = 0; e < kept_.edges.size(); ++e) edge_to_[{kept_.edges[e].to, kept_.edges[e].to_port}] = e;
  find_storages();
  for (const auto& [owner, storage] : storages_) {
    for (const Copy* copy : storage.larger()) {
      for (const NodeOperand& operand : copy->convertible) {
        for (const std::uint32_t edge : source_of(operand).edges) converted_edges_.insert(edge);
      }
    }
  }
  add_ops();
  add_storages();
  add_needs();
  add_rest();
}

std::vector<std::uint32_t> KeptSpace::ops_again(std::span<const std::uint32_t> answer) const {
  std::vector<std::uint32_t> nodes;
  for (const auto& [id, node] : node_of_op_) {
    if (answer[node] == 1) nodes.push_back(node);
  }
  return nodes;
}

std::vector<std::string> KeptSpace::recomputed(std::span<const std::uint32_t> answer) const {
  std::vector<bool> ops(input_.graph().nodes.size(), false);
  for (const auto& [id, node] : node_of_op_) ops[id] = answer[node] == 1;
  std::set<NodeOperand> operands;
  for (const NodeOperand& operand : convertible_) {
    const ValueId owner = owner_[input_.graph().nodes[operand.first].operands[operand.second].value];
    const auto node = node_of_storage_.find(owner);
    const bool converted = node != node_of_storage_.end() && answer[node->second] == kConverted && !ops[operand.first] && storages_.at(owner).converts(operand);
    if (converted || pins_.must_convert(operand)) operands.insert(operand);
  }
  return recomputed_names(input_.model, ops, operands);
}

std::uint32_t KeptSpace::add_node(std::string name, std::vector<Ticks> costs) {
  space_.nodes.push_back({std::move(name), std::move(costs)});
  return static_cast<std::uint32_t>(space_.nodes.size() - 1);
}

void KeptSpace::add_edge(std::uint32_t from, std::uint32_t to, CostTable table) {
  const auto known = table_of_.try_emplace({table.rows, table.costs}, static_cast<std::uint32_t>(space_.tables.size()));
  if (known.second) space_.tables.push_back(std::move(table));
  space_.edges.push_back({from, to, known.first->second});
}

void KeptSpace::hold(std::uint32_t node, std::size_t state, std::size_t states, std::int32_t begin, std::int32_t end, std::int64_t bytes) {
  if (begin >= end || bytes == 0) return;
  MemoryTerm term{node, begin, end, std::vector<std::int64_t>(states, 0)};
  term.bytes[state] = bytes;
  space_.memory.push_back(std::move(term));
}

std::int64_t KeptSpace::bytes_of(const Layout& layout, ValueId value) const {
  const TensorType &type = input_.graph().type(value), &whole = input_.graph().type(owner_[value]);
  const std::int64_t local = local_bytes(layout, input_.atoms().values[value], input_.mesh, size_bytes(type.dtype));
  if (whole.bytes() >= type.bytes() && type.bytes() > 0) return static_cast<std::int64_t>(static_cast<double>(local) * static_cast<double>(whole.bytes()) / static_cast<double>(type.bytes()));
  return local;
}

// Of a storage as its op yields it.
std::int64_t KeptSpace::made_bytes(ValueId owner) const {
  const NodeId producer = input_.graph().values[owner].producer;
  const std::vector<ValueId>& results = input_.graph().nodes[producer].results;
  const auto port = static_cast<std::uint32_t>(std::ranges::find(results, owner) - results.begin());
  return bytes_of(chosen(variable_of_.at(producer)).result(port).value, owner);
}

// What converts a value along an edge once more.
Ticks KeptSpace::again_cost(const Problem& with, std::uint32_t edge) const {
  const auto cost = [&](const Problem& problem) {
    const CostTable& table = problem.space.tables[problem.space.edges[edge].table];
    return table.costs[std::size_t{choice_[problem.edges[edge].from]} * table.columns + choice_[problem.edges[edge].to]];
  };
  return std::max<Ticks>(0, cost(with) - cost(kept_));
}

// The maker of the value; through views that are made again where what they show settles (recompute.h).
KeptSpace::Source KeptSpace::source_of(const NodeOperand& operand) const {
  const Recomputation& converted = converted_.recomputation;
  Source source;
  const auto follow = [&](std::uint32_t variable, std::uint32_t port) {
    const auto in = edge_to_.find({variable, port});
    if (in == edge_to_.end()) return kNoId;
    const ProblemEdge& edge = kept_.edges[in->second];
    source.edges.push_back(in->second);
    source.layout = chosen(edge.from).result(edge.from_port).value;
    source.value = edge.value;
    return edge.from;
  };
  std::uint32_t variable = variable_of_.at(operand.first), port = operand.second;
  while (true) {
    const bool of_view = port != operand.second || variable != variable_of_.at(operand.first);
    std::uint32_t from = follow(variable, port);
    if (from != kNoId && kept_.variables[from].kind == VariableKind::fork && edge_to_.contains({from, 0}) && (!of_view || converted.makes(source.value))) from = follow(from, 0);
    if (from == kNoId || kept_.variables[from].kind != VariableKind::node) return source;
    const NodeId maker = kept_.variables[from].node;
    if (!input_.model.backward->memory.nodes[maker].view || !converted.runs(maker)) return source;
    variable = from;
    port = 0;
  }
}

void KeptSpace::add_saved(std::uint32_t variable, ValueId value, const Layout& layout, const std::optional<NodeOperand>& operand) {
  Storage& storage = storages_[owner_[value]];
  Copy& copy = storage.copies[layout];
  copy.bytes = std::max(copy.bytes, bytes_of(layout, value));
  for (auto* first : {&storage.first, &copy.first}) *first = std::min(*first, variable);
  for (auto* last : {&storage.last, &copy.last}) *last = std::max(*last, variable);
  const bool could = operand && convertible_.contains(*operand) && !pins_.never_converts(*operand);
  const Source source = could ? source_of(*operand) : Source{};
  if (source.edges.empty()) {
    copy.of_others = true;
    return;
  }
  copy.convertible.insert(*operand);
  std::int64_t& made = storage.made[source.layout];
  made = std::max(made, bytes_of(source.layout, source.value));
}

void KeptSpace::find_storages() {
  const Graph& graph = input_.graph();
  const std::vector<NodeBackward>& backward = input_.model.backward->memory.nodes;
  owner_ = storages(graph, input_.ops);
  for (const auto& [id, variable] : variable_of_) {
    const Node& node = graph.nodes[id];
    const Strategy& strategy = chosen(variable);
    for (std::uint32_t port = 0; port < node.results.size(); ++port) {
      if (backward[id].saves_result[port]) add_saved(variable, node.results[port], strategy.result(port).value, std::nullopt);
    }
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      if (backward[id].saves_operand[port]) add_saved(variable, node.operands[port].value, strategy.operand(port).value, NodeOperand{id, port});
    }
  }
}

// Of ops that are alike the first ones should run again: what they save is held longest, and simulated steps are shorter so.
Ticks KeptSpace::earlier_first(Ticks ticks, std::uint32_t variable) const {
  return ticks - static_cast<Ticks>(static_cast<double>(ticks) / kPreference * (1 - static_cast<double>(variable) / static_cast<double>(kept_.variables.size())));
}

void KeptSpace::add_ops() {
  for (const RecomputableBlock& block : blocks_) {
    for (const NodeId id : block.nodes) {
      const auto variable = variable_of_.find(id);
      if (!again_.recomputation.runs(id) || variable == variable_of_.end() || input_.model.backward->memory.nodes[id].view) continue;
      const std::uint32_t at = choice_[variable->second];
      const Ticks forward = again_.space.nodes[variable->second].costs[at] - kept_.space.nodes[variable->second].costs[at];
      node_of_op_[id] = add_node(input_.graph().nodes[id].name, {pins_.must_run(id) ? kForbidden : 0, pins_.never_runs(id) ? kForbidden : earlier_first(std::max<Ticks>(0, forward), variable->second)});
    }
  }
}

void KeptSpace::add_storages() {
  const Graph& graph = input_.graph();
  std::map<ValueId, Ticks> converts, converts_kept;  // by owner: for those who take what is made again, or converted again, and don't run again
  for (std::uint32_t e = 0; e < kept_.edges.size(); ++e) {
    const ProblemEdge& edge = kept_.edges[e];
    const Variable& user = kept_.variables[edge.to];
    const bool runs = user.kind == VariableKind::node && node_of_op_.contains(user.node);
    if (!edge.of_parameter && !runs) converts[owner_[edge.value]] += again_cost(e);
    if (!runs && converted_edges_.contains(e)) converts_kept[owner_[edge.value]] += again_cost(converted_, e);
  }
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const ValueId owner = owner_[id];
    const NodeId producer = graph.values[owner].producer;
    if (!again_.recomputation.makes(id) || producer == kNoId || !node_of_op_.contains(producer) || node_of_storage_.contains(owner)) continue;
    const auto saved = storages_.find(owner);
    const bool is_saved = saved != storages_.end();
    const bool is_larger = is_saved && !saved->second.larger().empty();
    const Ticks as_before = pins_.must_run(producer) ? kForbidden : 0;
    std::vector<Ticks> costs = {is_saved ? kForbidden : 0, as_before, converts[owner]};
    if (is_larger) costs.push_back(as_before + converts_kept[owner]);
    const std::uint32_t node = node_of_storage_[owner] = add_node(graph.values[owner].name, std::move(costs));
    add_edge(node, node_of_op_.at(producer), makes(is_larger ? 4 : 3));
    const std::uint32_t maker = variable_of_.at(producer);
    if (!is_saved) {
      // For others, until they run again: at the latest when its maker would.
      hold(node, kKept, 3, forward_at(maker), backward_at(maker), made_bytes(owner));
      continue;
    }
    const Storage& storage = saved->second;
    const std::size_t states = is_larger ? 4 : 3;
    std::int64_t bytes = 0;
    for (const auto& [layout, copy] : storage.copies) bytes += copy.bytes;
    const std::int32_t end = backward_at(storage.first) + 1;
    hold(node, kKept, states, forward_at(maker), end, bytes);
    hold(node, kMadeAgain, states, backward_at(storage.last), end, bytes);
    if (is_larger) hold_converted(node, storage, maker);
    for (std::int32_t time = forward_at(maker); time < end; ++time) taken_off_[static_cast<std::size_t>(time)] += bytes;
  }
}

// As it was made until it is converted, larger copies from then on, and others all the time.
void KeptSpace::hold_converted(std::uint32_t node, const Storage& storage, std::uint32_t maker) {
  std::uint32_t first = kNoId;
  for (const Copy* copy : storage.larger()) {
    hold(node, kConverted, 4, backward_at(copy->last), backward_at(copy->first) + 1, copy->bytes);
    first = std::min(first, copy->last);
  }
  const auto is_larger = [&](const Copy& each) { return std::ranges::any_of(storage.larger(), [&](const Copy* copy) { return copy == &each; }); };
  for (const auto& [layout, copy] : storage.copies) {
    if (!is_larger(copy)) hold(node, kConverted, 4, forward_at(maker), backward_at(storage.first) + 1, copy.bytes);
  }
  for (const auto& [layout, bytes] : storage.made) {
    if (!storage.copies.contains(layout)) hold(node, kConverted, 4, forward_at(maker), backward_at(first), bytes);
  }
}

// Whether what runs again finds it there: an input, a parameter, what has no gradient and is made anew, and what a backward takes.
bool KeptSpace::is_kept_anyway(ValueId owner) const {
  const Value& value = input_.graph().values[owner];
  return value.producer == kNoId || !value.requires_gradient || !variable_of_.contains(value.producer) || storages_.contains(owner);
}

void KeptSpace::add_needs() {
  const Graph& graph = input_.graph();
  std::map<std::pair<std::uint32_t, std::uint32_t>, Ticks> converts;  // by variable and port
  for (std::uint32_t e = 0; e < kept_.edges.size(); ++e) {
    if (!kept_.edges[e].of_parameter) converts[{kept_.edges[e].to, kept_.edges[e].to_port}] = again_cost(e);
  }
  for (const auto& [id, op] : node_of_op_) {
    const std::uint32_t user = variable_of_.at(id);
    for (std::uint32_t port = 0; port < graph.nodes[id].operands.size(); ++port) {
      const ValueId owner = owner_[graph.nodes[id].operands[port].value];
      const Ticks cost = converts[{user, port}];
      const auto known = node_of_storage_.find(owner);
      if (known == node_of_storage_.end() && is_kept_anyway(owner)) {
        if (space_.nodes[op].costs[1] < kForbidden) space_.nodes[op].costs[1] += cost;
        continue;
      }
      const std::uint32_t storage = known != node_of_storage_.end() ? known->second : add_kept_for(owner, user);
      const bool saves = input_.model.backward->memory.nodes[id].saves_operand[port];
      const auto edge = edge_to_.find({user, port});
      const bool converted = edge != edge_to_.end() && converted_edges_.contains(edge->second);
      add_edge(storage, op, needs(space_.nodes[storage].costs.size(), cost, saves ? cost : 0, converted ? std::optional(again_cost(converted_, edge->second)) : std::nullopt));
    }
  }
}

// A storage that no backward takes and that is not made again: kept until this variable runs again, or not.
std::uint32_t KeptSpace::add_kept_for(ValueId owner, std::uint32_t user) {
  const Value& value = input_.graph().values[owner];
  const std::uint32_t node = node_of_storage_[owner] = add_node(value.name, {0, 0});
  hold(node, kKept, 2, forward_at(variable_of_.at(value.producer)), backward_at(user), made_bytes(owner));
  return node;
}

// What is held whatever is chosen here: the most between two moments at which a storage comes or goes.
void KeptSpace::add_rest() {
  std::vector<std::int64_t> held(taken_off_.size() + 1, 0);
  for (const MemoryTerm& term : kept_.space.memory) {
    held[static_cast<std::size_t>(term.begin)] += term.bytes[choice_[term.node]];
    held[static_cast<std::size_t>(term.end)] -= term.bytes[choice_[term.node]];
  }
  std::vector<std::int32_t> moments = {0, static_cast<std::int32_t>(taken_off_.size())};
  for (const MemoryTerm& term : space_.memory) moments.insert(moments.end(), {term.begin, term.end});
  std::ranges::sort(moments);
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  const std::uint32_t rest = add_node("the rest", {0});
  std::int64_t now = kept_.space.fixed_bytes;
  for (std::size_t m = 0; m + 1 < moments.size(); ++m) {
    std::int64_t most = 0;
    for (std::int32_t time = moments[m]; time < moments[m + 1]; ++time) {
      now += held[static_cast<std::size_t>(time)];
      most = std::max(most, now - taken_off_[static_cast<std::size_t>(time)]);
    }
    hold(rest, 0, 1, moments[m], moments[m + 1], most);
  }
}

}  // namespace meshwright
