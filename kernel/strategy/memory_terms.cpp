#include "strategy/memory_terms.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "meshwright/backward_memory.h"
#include "meshwright/step_order.h"
#include "strategy/fullest_bytes.h"
#include "strategy/gather_turns.h"
#include "strategy/variable_flow.h"

namespace meshwright {

namespace {

using Bytes = std::vector<std::int64_t>;  // by strategy of a variable

constexpr std::size_t kMostSharing = 8;  // savers of one storage that are told apart by when they begin

class Terms {
 public:
  Terms(const ProblemInput& input, Problem& problem)
      : input_(input),
        problem_(problem),
        again_(problem.recomputation),
        count_(static_cast<std::int32_t>(problem.variables.size())),
        flow_(input.model.backward->memory, problem),
        turns_(gather_turns(input, problem, flow_)),
        fullest_(input, problem) {
    // The settings were looked at when they were read.
    const StepOrder order = step_order(input.training).value();
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
      if (problem.variables[i].kind == VariableKind::node) variable_of_[problem.variables[i].node] = i;
    }
    forward_ = order.fullest(Phase::forward);
    backward_ = order.fullest(Phase::backward);
  }

  void run() {
    group_storages();
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) find_savers(i);
    for (auto& [root, group] : groups_) std::ranges::stable_sort(group.savers, {}, &Saver::variable);
    count_contained();
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      switch (problem_.variables[i].kind) {
        case VariableKind::parameter: add_parameter(i); break;
        case VariableKind::node: add_node(i); break;
        case VariableKind::fork: add_fork(i); break;
        case VariableKind::output: add_output(i); break;
      }
    }
    for (const auto& [root, group] : groups_) add_saved(root, group);
  }

 private:
  // Values that share a storage: a value and its views of the same size. A view of a part of it is a group of its own,
  // inside of this one.
  struct Saver {
    std::uint32_t variable = 0;
    ValueId value = kNoId;
    Bytes bytes;
    bool holds = false;  // at its backward's fullest moment
  };
  // Of a block that runs again, or of an operand that is converted again: it has the storage from then on only.
  struct LateSaver {
    Saver saver;
    std::int32_t begin = 0;                   // then
    std::uint32_t kept_by = kNoId, port = 0;  // the variable that keeps what it is made of until then; kNoId where that is made again too
    std::int32_t kept_from = 0;               // when nobody else counts that
    bool alone = false;                       // the op does not run again: of a storage that is held for others too less is counted
  };
  struct Group {
    ValueId parent = kNoId;
    std::vector<Saver> savers;  // in the order of the forward
    std::vector<LateSaver> late_savers;
    std::int32_t taken_over = -1;  // the time from which an output of the step holds it; -1: none does
  };

  [[nodiscard]] const Variable& variable(std::uint32_t i) const { return problem_.variables[i]; }
  [[nodiscard]] const std::vector<Strategy>& strategies(std::uint32_t i) const { return variable(i).set->strategies; }
  [[nodiscard]] const NodeBackward& backward_of(std::uint32_t i) const { return input_.model.backward->memory.nodes[variable(i).node]; }
  [[nodiscard]] const Node& node_of(std::uint32_t i) const { return input_.graph().nodes[variable(i).node]; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return input_.graph().type(id); }

  // Times are those of two events of the step's order (step_order.h): the forward and the backward during which most microbatches
  // are in flight. The forward goes through the variables in their order, the backward the other way round.
  [[nodiscard]] static std::int32_t forward_at(std::uint32_t i) { return static_cast<std::int32_t>(i); }
  [[nodiscard]] std::int32_t backward_at(std::uint32_t i) const { return 2 * count_ - 1 - static_cast<std::int32_t>(i); }
  [[nodiscard]] std::int32_t after_all() const { return 2 * count_ + 1; }

  static bool is_none(const Bytes& bytes) { return std::ranges::all_of(bytes, [](std::int64_t b) { return b == 0; }); }

  // Of one microbatch. What is kept from its forward to its backward is kept by all others that are in flight.
  void add(std::uint32_t i, std::int32_t begin, std::int32_t end, const Bytes& bytes) {
    add_of_step(i, begin, end, bytes);
    if (begin >= count_ || end <= count_) return;
    const std::size_t own = problem_.space.memory.size();
    if (forward_.in_flight > 1) add_of_step(i, 0, count_, scaled(bytes, forward_.in_flight - 1, 1));
    if (backward_.in_flight > 1) add_of_step(i, count_, 2 * count_, scaled(bytes, backward_.in_flight - 1, 1));
    for (std::size_t term = own; term < problem_.space.memory.size(); ++term) of_others_.insert(static_cast<std::uint32_t>(term));
  }

  // Once in a step, whatever the number of microbatches.
  void add_of_step(std::uint32_t i, std::int32_t begin, std::int32_t end, Bytes bytes) {
    begin = std::max(begin, 0);
    end = std::min(end, after_all());
    if (begin >= end || is_none(bytes)) return;
    problem_.space.memory.push_back({i, begin, end, std::move(bytes)});
  }

  // --- bytes of one device ---

  [[nodiscard]] std::int64_t bytes(const Layout& layout, ValueId id, std::int64_t element_bytes) const {
    return local_bytes(layout, input_.atoms().values[id], input_.mesh, element_bytes);
  }
  [[nodiscard]] std::int64_t bytes(const Layout& layout, ValueId id) const { return bytes(layout, id, size_bytes(type(id).dtype)); }

  enum class Part : std::uint8_t { operand, operand_gradient, result, result_gradient, gathered };

  // By strategy; variables with the same strategies share the answer.
  const Bytes& bytes_of(std::uint32_t i, Part part, std::uint32_t port, ValueId id) {
    const auto [found, inserted] = known_.try_emplace({variable(i).set->id, part, port});
    if (!inserted) return found->second;
    const bool own = part == Part::result && variable(i).kind == VariableKind::node && input_.atoms().nodes[variable(i).node].rule.results[port].own;
    for (const Strategy& strategy : strategies(i)) {
      const std::int64_t bytes = part_bytes(strategy, part, port, id);
      found->second.push_back(own ? static_cast<std::int64_t>(static_cast<double>(bytes) * strategy.node()->own_share) : bytes);
    }
    return found->second;
  }

  [[nodiscard]] std::int64_t part_bytes(const Strategy& strategy, Part part, std::uint32_t port, ValueId id) const {
    switch (part) {
      case Part::operand: return bytes(strategy.operand(port).value, id);
      case Part::operand_gradient: return bytes(strategy.operand(port).gradient, id);
      case Part::result: return bytes(strategy.result(port).value, id);
      case Part::result_gradient: return bytes(strategy.result(port).gradient, id);
      case Part::gathered: return strategy.result(0).value == strategy.parameter()->compute ? 0 : bytes(strategy.parameter()->compute, id);
    }
    return 0;
  }

  static Bytes scaled(const Bytes& bytes, std::int64_t by, std::int64_t over) {
    Bytes result = bytes;
    if (by == over) return result;
    for (std::int64_t& one : result) one = static_cast<std::int64_t>(static_cast<__int128>(one) * by / over);
    return result;
  }

  // --- which values share a storage ---

  void group_storages() {
    root_.resize(input_.graph().values.size());
    for (ValueId id = 0; id < root_.size(); ++id) root_[id] = id;
    for (NodeId id = 0; id < input_.graph().nodes.size(); ++id) {
      if (!input_.model.backward->memory.nodes[id].view) continue;
      const Node& node = input_.graph().nodes[id];
      const ValueId seen = root_[node.operands[0].value];
      for (const ValueId result : node.results) {
        // An expanded view repeats the storage, and has all of it too.
        if (type(result).bytes() >= type(seen).bytes()) root_[result] = seen;
        else groups_[result].parent = seen;
      }
    }
  }

  void find_savers(std::uint32_t i) {
    if (variable(i).kind == VariableKind::output) {
      if (is_held_as_output(i)) groups_[root_[variable(i).value]].taken_over = forward_at(i);
      return;
    }
    if (variable(i).kind != VariableKind::node) return;
    const Node& node = node_of(i);
    const NodeBackward& backward = backward_of(i);
    const auto saver_of = [&](ValueId id, const Bytes& bytes, bool holds) {
      return Saver{i, id, scaled(bytes, std::min(type(root_[id]).bytes(), type(id).bytes()), type(id).bytes()), holds};
    };
    for (std::uint32_t port = 0; port < node.results.size(); ++port) {
      if (!backward.saves_result[port]) continue;
      const ValueId result = node.results[port];
      Saver saver = saver_of(result, bytes_of(i, Part::result, port, result), backward.holds_result[port]);
      if (again_.makes(result)) groups_[root_[result]].late_savers.push_back({std::move(saver), again_at(variable(i).node)});
      else groups_[root_[result]].savers.push_back(std::move(saver));
    }
    std::vector<ValueId> seen;  // x·x saves x once
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      const ValueId operand = node.operands[port].value;
      if (!backward.saves_operand[port] || is_parameter(operand) || std::find(seen.begin(), seen.end(), operand) != seen.end()) continue;
      seen.push_back(operand);
      Saver saver = saver_of(operand, bytes_of(i, Part::operand, port, operand), backward.holds_operand[port]);
      Group& group = groups_[root_[operand]];
      if (!saves_late(i, port, operand)) {
        group.savers.push_back(std::move(saver));
        continue;
      }
      LateSaver late{std::move(saver), late_at(i, port, operand)};
      find_keeper(i, port, late);
      group.late_savers.push_back(std::move(late));
    }
  }

  // Who keeps what an op converts again: for one that runs again whoever hands it on, for an operand alone whoever makes it. A view that is made again is followed.
  void find_keeper(std::uint32_t i, std::uint32_t port, LateSaver& late) const {
    const auto in = flow_.in(i).find(port);
    if (in == flow_.in(i).end()) return;
    const ProblemEdge* edge = &problem_.edges[in->second];
    if (again_.makes(edge->value)) {
      const NodeId maker = input_.graph().values[edge->value].producer;
      late.alone = input_.model.backward->memory.nodes[maker].view && root_[input_.graph().nodes[maker].operands[0].value] == root_[edge->value];
      if (late.alone) find_keeper(variable_of_.at(maker), 0, late);
      return;
    }
    late.kept_from = handed_over(edge->from, edge->from_port);
    late.alone |= again_.converts(variable(i).node, edge->to_port);
    if (again_.converts(variable(i).node, edge->to_port) && variable(edge->from).kind == VariableKind::fork && !flow_.in(edge->from).empty()) {
      edge = &problem_.edges[flow_.in(edge->from).at(0)];
      late.kept_from = std::max(late.kept_from, handed_over(edge->from, edge->from_port));
    }
    late.kept_by = edge->from;
    late.port = edge->from_port;
  }

  // Whether an op has an operand for its backward only from when its block runs again, or from when it is converted again. What is made without a gradient is not made again.
  [[nodiscard]] bool saves_late(std::uint32_t i, std::uint32_t port, ValueId operand) const {
    const Value& value = input_.graph().values[operand];
    const bool runs = again_.runs(variable(i).node) && (value.requires_gradient || value.producer == kNoId);
    return again_.makes(operand) || runs || again_.converts(variable(i).node, port);
  }
  [[nodiscard]] std::int32_t late_at(std::uint32_t i, std::uint32_t port, ValueId operand) const {
    if (again_.converts(variable(i).node, port)) return backward_at(i);
    return again_at(again_.makes(operand) ? input_.graph().values[operand].producer : variable(i).node);
  }
  // When that is.
  [[nodiscard]] std::int32_t again_at(NodeId node) const { return backward_at(variable_of_.at(again_.begin[node])); }

  [[nodiscard]] bool is_parameter(ValueId id) const {
    const ValueId root = root_[id];
    return input_.graph().values[root].producer == kNoId && input_.graph().values[root].requires_gradient;
  }

  // What is sent to another stage goes with its last use.
  [[nodiscard]] bool is_held_as_output(std::uint32_t i) const {
    return std::ranges::any_of(input_.graph().outputs, [&](const Output& output) {
      const bool handed_out = output.kind != OutputKind::user_output || input_.training.microbatches == 1;
      return output.value == variable(i).value && handed_out && output.kind != OutputKind::sent;
    });
  }

  // By group: the most savers of any storage inside of it.
  void count_contained() {
    for (const auto& [id, group] : groups_) {
      auto below = static_cast<std::int64_t>(group.savers.size());
      for (ValueId up = group.parent; up != kNoId;) {
        contained_[up] = std::max(contained_[up], below);
        const auto parent = groups_.find(up);
        if (parent == groups_.end()) break;
        below += static_cast<std::int64_t>(parent->second.savers.size());
        up = parent->second.parent;
      }
    }
  }

  // Savers of storages that contain this one, and the most of any that it contains.
  [[nodiscard]] std::int64_t savers_outside(ValueId root) const {
    std::int64_t outside = contained_.contains(root) ? contained_.at(root) : 0;
    for (auto at = groups_.find(root); at != groups_.end() && at->second.parent != kNoId;) {
      at = groups_.find(at->second.parent);
      if (at != groups_.end()) outside += static_cast<std::int64_t>(at->second.savers.size());
    }
    return outside;
  }

  // Those of one block share it. Until then what it is made of is kept, by who yields it, unless somebody saves that anyway.
  void add_saved_late(ValueId root, const Group& group) {
    std::map<std::int32_t, std::int64_t> sharing;  // by time
    for (const LateSaver& late : group.late_savers) ++sharing[late.begin];
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::int32_t, std::int32_t>> kept;  // from when until when
    for (const LateSaver& late : group.late_savers) {
      const Saver& saver = late.saver;
      // What others keep from the forward on may be the same storage.
      if (group.savers.empty()) add(saver.variable, late.begin, backward_at(saver.variable) + (saver.holds ? 1 : 0), scaled(saver.bytes, 1, sharing.at(late.begin) + savers_outside(root)));
      if (late.kept_by == kNoId || !group.savers.empty() || group.taken_over >= 0 || (late.alone && savers_outside(root) > 0)) continue;
      auto& [from, until] = kept[{late.kept_by, late.port}];
      from = std::max(from, late.kept_from);
      until = std::max(until, late.begin);
    }
    if (kept.size() != 1) return;  // several may share it
    const auto& [keeper, when] = *kept.begin();
    const auto& [by, port] = keeper;
    if (variable(by).kind == VariableKind::node) add(by, when.first, when.second, bytes_of(by, Part::result, port, node_of(by).results[port]));
    if (variable(by).kind == VariableKind::fork) add(by, when.first, when.second, bytes_of(by, Part::result, 0, variable(by).value));
  }

  void add_saved(ValueId root, const Group& group) {
    add_saved_late(root, group);
    const std::int64_t outside = savers_outside(root);
    for (std::size_t s = 0; s < group.savers.size(); ++s) {
      auto term = static_cast<std::uint32_t>(problem_.space.memory.size());
      add_shares(group, s, outside);
      for (; term < problem_.space.memory.size(); ++term) problem_.saved.push_back({term, group.savers[s].value, of_others_.contains(term)});
    }
  }

  // Of one saver.
  void add_shares(const Group& group, std::size_t s, std::int64_t outside) {
    const std::size_t savers = group.savers.size();
    const Saver& saver = group.savers[s];
    const std::int32_t last = backward_at(saver.variable) + (saver.holds ? 1 : 0);
    const std::int32_t until = group.taken_over >= 0 ? std::min(last, group.taken_over) : last;
    if (savers > kMostSharing) {
      add(saver.variable, forward_at(saver.variable), until, scaled(saver.bytes, 1, static_cast<std::int64_t>(savers) + outside));
      return;
    }
    // From when the k-th saver has begun until the next does, and again when it has ended, k of them share.
    for (std::size_t k = s; k < savers; ++k) {
      const Bytes share = scaled(saver.bytes, 1, static_cast<std::int64_t>(k) + 1 + outside);
      const std::int32_t begin = forward_at(group.savers[k].variable);
      if (k + 1 == savers) {
        add(saver.variable, begin, std::min(until, backward_at(group.savers[k].variable) + (s == k && !saver.holds ? 0 : 1)), share);
        continue;
      }
      const std::uint32_t next = group.savers[k + 1].variable;
      add(saver.variable, begin, std::min(forward_at(next), until), share);
      add(saver.variable, backward_at(next) + 1, std::min(until, backward_at(group.savers[k].variable) + (s == k && !saver.holds ? 0 : 1)), share);
    }
  }

  [[nodiscard]] bool is_saved(ValueId id) const {
    const auto group = groups_.find(root_[id]);
    return group != groups_.end() && !group->second.savers.empty();
  }

  // --- uses of a value ---

  // The time at which somebody else begins to count the storage that variable i made for its port, or the last use.
  [[nodiscard]] std::int32_t handed_over(std::uint32_t i, std::uint32_t port) const {
    std::int32_t last = forward_at(i) + 1, first_saver = after_all();
    for (const std::uint32_t e : flow_.out(i)) {
      const ProblemEdge& edge = problem_.edges[e];
      if (edge.from_port != port) continue;
      const Variable& user = variable(edge.to);
      std::int32_t here = forward_at(edge.to);
      if (user.kind == VariableKind::node) {
        const NodeBackward& backward = backward_of(edge.to);
        if (backward.saves_operand[edge.to_port] && !saves_late(edge.to, edge.to_port, edge.value)) first_saver = std::min(first_saver, here);
        if (backward.view) {
          for (std::uint32_t result = 0; result < node_of(edge.to).results.size(); ++result) here = std::max(here, handed_over(edge.to, result));
        }
      }
      last = std::max(last, here);
    }
    return std::min(last, first_saver);
  }

  // --- the kinds of variables ---

  void add_parameter(std::uint32_t i) {
    const VariableFlow::Uses uses = flow_.uses_of(i);
    Bytes state, kept;
    for (const Strategy& strategy : strategies(i)) state.push_back(strategy.parameter()->state_bytes);
    add_of_step(i, 0, after_all(), std::move(state));
    add_parameter_gradient(i, uses);
    const Bytes& gathered = bytes_of(i, Part::gathered, 0, variable(i).value);
    if (is_none(gathered)) return;
    Bytes ahead, ahead_again;
    for (std::size_t s = 0; s < gathered.size(); ++s) {
      const ParameterStrategy& strategy = *strategies(i)[s].parameter();
      ahead.push_back(strategy.prefetch ? gathered[s] : 0);
      kept.push_back(strategy.regather ? 0 : gathered[s]);
      ahead_again.push_back(strategy.regather ? ahead[s] : kept[s]);
    }
    const auto& [forward, backward] = turns_.at(i);
    add(i, forward.ahead, forward.at, ahead);
    add(i, forward.at, forward_at(uses.last) + 1, gathered);
    if (uses.first_saver == kNoId) return;
    add(i, forward_at(uses.last) + 1, backward.ahead, kept);
    add(i, backward.ahead, backward.at, ahead_again);
    add(i, backward.at, backward_at(uses.first_saver) + 1, gathered);
  }

  // The sum over microbatches is there once one of them has ended. In the last one ZeRO-1 reduces it to shards, as soon as it is
  // complete.
  void add_parameter_gradient(std::uint32_t i, const VariableFlow::Uses& uses) {
    const std::int64_t microbatches = input_.training.microbatches;
    const ValueId id = variable(i).value;
    Bytes whole, reduced;
    for (const Strategy& strategy : strategies(i)) {
      const ParameterStrategy& parameter = *strategy.parameter();
      whole.push_back(parameter.gradient_bytes);
      const bool shrinks = microbatches > 1 && parameter.zero == ZeroStage::optimizer && !input_.training.reduces_each_microbatch(parameter.zero);
      reduced.push_back(shrinks ? bytes(parameter.state, id, input_.training.gradient_bytes(type(id).dtype)) : parameter.gradient_bytes);
    }
    const std::int32_t complete = backward_at(uses.first) + 1;
    const std::int32_t shrunk = backward_.goes_on ? 2 * count_ : complete;
    if (forward_.adds_up) add_of_step(i, 0, backward_.adds_up ? shrunk : count_, whole);
    if (!forward_.adds_up || !backward_.adds_up) add_of_step(i, backward_.adds_up ? count_ : complete, shrunk, whole);
    add_of_step(i, shrunk, after_all(), std::move(reduced));
  }

  void add_node(std::uint32_t i) {
    const Node& node = node_of(i);
    const NodeBackward& backward = backward_of(i);
    for (std::uint32_t port = 0; port < node.results.size(); ++port) {
      if (backward.view || (backward.saves_result[port] && !again_.makes(node.results[port]))) continue;
      add(i, forward_at(i), handed_over(i, port), bytes_of(i, Part::result, port, node.results[port]));
    }
    const std::uint32_t addend = flow_.is_sum(i) ? flow_.longest_addend(i) : kNoId;
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      const ValueId operand = node.operands[port].value;
      const auto edge = flow_.in(i).find(port);
      if (edge == flow_.in(i).end() || is_parameter(operand)) continue;
      const std::uint32_t from = problem_.edges[edge->second].from;
      const bool last_use = handed_over(from, problem_.edges[edge->second].from_port) == forward_at(i);
      if (!backward.view && !is_saved(operand) && last_use) add(i, forward_at(i), forward_at(i) + 1, bytes_of(i, Part::operand, port, operand));
      if (!contributes(input_.model, variable(i).node, port) || (backward.passes_gradient[port] && port != addend)) continue;
      if (variable(from).kind != VariableKind::node) continue;  // a fork counts the sum
      const std::int32_t begin = backward_at(addend == kNoId ? i : flow_.shared_until(i)) + 1;
      add(i, begin, backward_at(flow_.gradient_ends_at(from)), bytes_of(i, Part::operand_gradient, port, operand));
    }
    add(i, backward_at(i), backward_at(i) + 1, fullest_.of(i, backward));
  }

  void add_fork(std::uint32_t i) {
    const ValueId id = variable(i).value;
    const VariableFlow::Uses uses = flow_.uses_of(i);
    if (uses.first == kNoId || flow_.in(i).empty()) return;  // nobody, or an input, which is there anyway
    const std::uint32_t from = problem_.edges[flow_.in(i).at(0)].from;
    const bool parameter = variable(from).kind == VariableKind::parameter;
    const bool saved_by_maker = !parameter && is_saved(id) && groups_.at(root_[id]).savers.front().variable < i;
    if (!parameter && !saved_by_maker) add(i, forward_at(i), handed_over(i, 0), bytes_of(i, Part::result, 0, id));
    const std::int32_t used_up = parameter ? backward_at(uses.first) + 1 : backward_at(flow_.gradient_ends_at(from));
    add(i, backward_at(flow_.shared_until(i)) + 1, used_up, bytes_of(i, Part::result_gradient, 0, id));
  }

  void add_output(std::uint32_t i) {
    if (is_held_as_output(i)) add(i, forward_at(i), after_all(), bytes_of(i, Part::operand, 0, variable(i).value));
  }

  const ProblemInput& input_;
  Problem& problem_;
  const Recomputation& again_;
  std::map<NodeId, std::uint32_t> variable_of_;
  const std::int32_t count_;
  const VariableFlow flow_;
  const std::map<std::uint32_t, GatherTurns> turns_;
  StepOrder::Fullest forward_, backward_;  // the events whose times these are
  std::vector<ValueId> root_;                                    // by value
  std::map<ValueId, Group> groups_;                              // by root
  std::map<ValueId, std::int64_t> contained_;
  std::set<std::uint32_t> of_others_;                            // terms, of other microbatches in flight
  std::map<std::tuple<std::uint32_t, Part, std::uint32_t>, Bytes> known_;
  FullestBytes fullest_;
};

// Parameters are held all the time; what an op may save, from its forward to its backward.
void add_plain_terms(Problem& problem) {
  const auto count = static_cast<std::int32_t>(problem.variables.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const Variable& variable = problem.variables[static_cast<std::size_t>(i)];
    const bool parameter = variable.kind == VariableKind::parameter;
    MemoryTerm term{static_cast<std::uint32_t>(i), parameter ? 0 : i, parameter ? 2 * count : 2 * count - i, {}};
    for (const Strategy& strategy : variable.set->strategies) term.bytes.push_back(strategy.resident_bytes());
    if (std::any_of(term.bytes.begin(), term.bytes.end(), [](std::int64_t b) { return b > 0; })) problem.space.memory.push_back(std::move(term));
  }
}

}  // namespace

void add_memory_terms(const ProblemInput& input, Problem& problem) {
  if (!input.model.backward) add_plain_terms(problem);
  else Terms(input, problem).run();
}

}  // namespace meshwright
