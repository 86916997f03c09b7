#include "meshwright/plan_chain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "strategy/edge_tables.h"

namespace meshwright {

namespace {

class ChainBuilder {
 public:
  ChainBuilder(const ProblemInput& input, const Problem& problem, const ModelChain& model, std::span<const std::uint32_t> choice, const Recomputation* again)
      : input_(input), problem_(problem), model_(model), choice_(choice), again_(again), values_(model.stages.size()), saved_(model.stages.size()), kept_bytes_(model.stages.size(), 0),
        windows_(model.stages.size()) {
    chain_.stages.resize(model.stages.size());
    find_stages();
  }

  Chain run() {
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) add_seconds(i);
    for (std::uint32_t e = 0; e < problem_.edges.size(); ++e) add_edge(e);
    find_yielded();
    add_values();
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) add_saved(i);
    add_up_saved();
    for (std::uint32_t s = 0; s < chain_.stages.size(); ++s) add_overheads(s);
    add_kept();
    return std::move(chain_);
  }

 private:
  // Variables that compute in a stage: from `first` to `last`.
  struct Window {
    std::uint32_t first = std::numeric_limits<std::uint32_t>::max(), last = 0;
  };
  // By the owner of a storage, and its bytes: a view of it has another layout, and is no other copy.
  using Copies = std::set<std::pair<ValueId, std::int64_t>>;

  [[nodiscard]] const Graph& graph() const { return input_.graph(); }
  [[nodiscard]] const Variable& variable(std::uint32_t i) const { return problem_.variables[i]; }
  [[nodiscard]] const Strategy& chosen(std::uint32_t i) const { return variable(i).set->strategies[choice_[i]]; }

  // Nodes lie in their own stage; what settles or leaves, in that of who made it; a source, in that of its first use.
  void find_stages() {
    stage_of_.assign(problem_.variables.size(), std::numeric_limits<std::uint32_t>::max());
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      const NodeId maker = variable(i).kind == VariableKind::node ? variable(i).node : graph().values[variable(i).value].producer;
      if (maker != kNoId) stage_of_[i] = model_.stage_of[maker];
    }
    // Uses stand behind what they use, so a fork of a parameter is known before the parameter.
    std::vector<std::uint32_t> edges(problem_.edges.size());
    for (std::uint32_t e = 0; e < edges.size(); ++e) edges[e] = e;
    std::ranges::stable_sort(edges, std::ranges::greater(), [&](std::uint32_t e) { return problem_.edges[e].to; });
    for (const std::uint32_t e : edges) {
      const ProblemEdge& edge = problem_.edges[e];
      if (graph().values[edge.value].producer == kNoId) stage_of_[edge.from] = std::min(stage_of_[edge.from], stage_of_[edge.to]);
    }
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      if (stage_of_[i] >= chain_.stages.size()) stage_of_[i] = 0;  // nobody uses it
      if (variable(i).kind != VariableKind::node && variable(i).kind != VariableKind::fork) continue;
      Window& window = windows_[stage_of_[i]];
      window.first = std::min(window.first, i);
      window.last = std::max(window.last, i);
    }
  }

  void add_seconds(std::uint32_t i) {
    const Strategy& strategy = chosen(i);
    ChainStage& stage = chain_.stages[stage_of_[i]];
    stage.forward_ticks += to_ticks(strategy.forward_seconds);
    stage.backward_ticks += to_ticks(strategy.backward_seconds);
    const NodeStrategy* node = strategy.node();
    if (node == nullptr) return;
    stage.forward_communication_ticks += to_ticks(node->forward_communication_seconds);
    stage.backward_communication_ticks += to_ticks(node->backward_communication_seconds + node->constant_seconds);
  }

  void add_edge(std::uint32_t e) {
    const ProblemEdge& edge = problem_.edges[e];
    const NodeId maker = graph().values[edge.value].producer;
    ChainStage& stage = chain_.stages[maker == kNoId ? stage_of_[edge.to] : model_.stage_of[maker]];
    if (edge.of_parameter) {
      const CostTable& table = problem_.space.tables[problem_.space.edges[e].table];
      stage.backward_communication_ticks += table.costs[std::size_t{choice_[edge.from]} * table.columns + choice_[edge.to]] / input_.training.microbatches;
      return;
    }
    const EdgePrices& prices = *problem_.edge_prices;
    const EdgePrices::OfEdge& of_edge = prices.edges[e];
    const PortLayouts &from = chosen(edge.from).result(edge.from_port), &to = chosen(edge.to).operand(edge.to_port);
    const bool converts_again = again_ != nullptr && variable(edge.to).kind == VariableKind::node && again_->runs(variable(edge.to).node);
    ChainStage& forward = converts_again ? chain_.stages[stage_of_[edge.to]] : stage;
    forward.forward_communication_ticks += prices.between(of_edge.value, from.value, to.value).ticks;
    if (of_edge.has_gradient) stage.backward_communication_ticks += prices.between(of_edge.gradient, to.gradient, from.gradient).ticks;
  }

  // In which layouts the chain's values are at hand.
  void find_yielded() {
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      if (variable(i).kind == VariableKind::fork) yielded_[variable(i).value] = chosen(i).result(0);
      if (variable(i).kind != VariableKind::node) continue;
      const std::vector<ValueId>& results = graph().nodes[variable(i).node].results;
      for (std::uint32_t port = 0; port < results.size(); ++port) yielded_[results[port]] = chosen(i).result(port);  // a fork of it stands behind
    }
  }

  // Of the storage that a value lies in, where the value is in this layout.
  [[nodiscard]] std::int64_t bytes_of(const Layout& layout, ValueId id) const {
    const TensorType &type = graph().type(id), &whole = graph().type(model_.owner[id]);
    const std::int64_t local = local_bytes(layout, input_.atoms().values[id], input_.mesh, size_bytes(type.dtype));
    if (whole.bytes() <= type.bytes() || type.bytes() == 0) return local;
    return static_cast<std::int64_t>(static_cast<double>(local) * static_cast<double>(whole.bytes()) / static_cast<double>(type.bytes()));
  }

  // Whether a plan could let go of what it holds of a value.
  [[nodiscard]] bool can_go(ValueId id) const { return again_ == nullptr || again_->makes(id) || again_->makes(model_.owner[id]); }
  // The same of an operand: where the op runs again, a copy of a value that is kept is made again too.
  [[nodiscard]] bool can_go(NodeId user, ValueId id, const Layout& layout) const {
    if (can_go(id)) return true;
    const auto yielded = yielded_.find(id);
    const std::int64_t bytes = bytes_of(layout, id);
    return again_->runs(user) && yielded != yielded_.end() && bytes != bytes_of(yielded->second.value, id) && !kept_values_.contains({model_.owner[id], bytes});
  }

  void save(std::uint32_t stage, ValueId id, const Layout& layout, bool can_go) {
    const ValueId owner = model_.owner[id];
    const NodeId maker = graph().values[owner].producer;
    if (maker == kNoId || model_.is_common[maker]) return;
    const std::pair copy{owner, bytes_of(layout, id)};
    if (!can_go) return keep(stage, copy);
    if (stage == 0 || !values_[stage - 1].contains(copy)) saved_[stage].insert(copy);
  }

  // From the stage's forward on, to its backward, whatever is chosen.
  void keep(std::uint32_t stage, const Copies::value_type& copy) {
    if (kept_.insert(copy).second) kept_bytes_[stage] += copy.second;
  }

  void add_values() {
    for (std::uint32_t s = 0; s + 1 < chain_.stages.size(); ++s) {
      ChainStage& next = chain_.stages[s + 1];
      for (const ValueId id : model_.stages[s].results) {
        const PortLayouts& layouts = yielded_.at(id);
        const std::pair copy{model_.owner[id], bytes_of(layouts.value, id)};
        (can_go(id) ? values_[s] : kept_values_).insert(copy);
        if (!can_go(id)) keep(s, copy);
        if (!has_gradient(input_.model, id)) continue;
        next.input_gradient_bytes += local_bytes(layouts.gradient, input_.atoms().values[id], input_.mesh, size_bytes(graph().type(id).dtype));
      }
      for (const auto& [owner, bytes] : values_[s]) next.input_bytes += bytes;
    }
  }

  void add_saved(std::uint32_t i) {
    if (variable(i).kind != VariableKind::node) return;
    const Node& node = graph().nodes[variable(i).node];
    const NodeBackward& backward = input_.model.backward->memory.nodes[variable(i).node];
    for (std::uint32_t port = 0; port < node.results.size(); ++port) {
      if (backward.saves_result[port]) save(stage_of_[i], node.results[port], chosen(i).result(port).value, can_go(node.results[port]));
    }
    for (std::uint32_t port = 0; port < node.operands.size(); ++port) {
      if (!backward.saves_operand[port]) continue;
      const ValueId value = node.operands[port].value;
      const Layout& layout = chosen(i).operand(port).value;
      save(stage_of_[i], value, layout, can_go(variable(i).node, value, layout));
    }
  }

  // A stage saves the chain's value that it makes, too.
  void add_up_saved() {
    for (std::uint32_t s = 0; s < chain_.stages.size(); ++s) {
      saved_[s].insert(values_[s].begin(), values_[s].end());
      for (const auto& [owner, bytes] : saved_[s]) chain_.stages[s].saved_bytes += bytes;
    }
  }

  // The most that is held within [begin, end) of terms that live nowhere else.
  [[nodiscard]] std::int64_t most_within(std::int32_t begin, std::int32_t end) const {
    std::map<std::int32_t, std::int64_t> changes;
    for (const MemoryTerm& term : problem_.space.memory) {
      if (term.begin < begin || term.end > end) continue;
      changes[term.begin] += term.bytes[choice_[term.node]];
      changes[term.end] -= term.bytes[choice_[term.node]];
    }
    std::int64_t now = 0, most = 0;
    for (const auto& [time, change] : changes) most = std::max(most, now += change);
    return most;
  }

  // Variable i computes at time i, and its backward is at 2N-1-i (memory_terms.h).
  void add_overheads(std::uint32_t s) {
    const Window& window = windows_[s];
    if (window.first > window.last) return;  // common nodes alone
    const auto last = static_cast<std::int32_t>(2 * problem_.variables.size() - 1);
    const auto first_at = static_cast<std::int32_t>(window.first), last_at = static_cast<std::int32_t>(window.last);
    ChainStage& stage = chain_.stages[s];
    const std::int64_t next_gradient = s + 1 < chain_.stages.size() ? chain_.stages[s + 1].input_gradient_bytes : 0;
    stage.forward_overhead_bytes = most_within(first_at, last_at + 1);
    stage.backward_overhead_bytes = std::max<std::int64_t>(0, most_within(last - last_at, last - first_at + 1) - stage.input_gradient_bytes - next_gradient);
  }

  void add_kept() {
    std::int64_t kept = 0;
    for (std::uint32_t s = 0; s < chain_.stages.size(); ++s) {
      kept += kept_bytes_[s];
      chain_.stages[s].forward_overhead_bytes += kept;
      chain_.stages[s].backward_overhead_bytes += kept;
    }
  }

  const ProblemInput& input_;
  const Problem& problem_;
  const ModelChain& model_;
  const std::span<const std::uint32_t> choice_;
  const Recomputation* again_;
  Chain chain_;
  std::vector<std::uint32_t> stage_of_;  // by variable
  std::map<ValueId, PortLayouts> yielded_;  // by value
  std::vector<Copies> values_, saved_;   // by stage: the chain's value behind it, and all that backwards take
  Copies kept_values_, kept_;            // what the chain's values are that no plan lets go; with all else that none does
  std::vector<std::int64_t> kept_bytes_; // of these, by the first stage that has them
  std::vector<Window> windows_;          // by stage
};

}  // namespace

Chain chain_of(const ProblemInput& input, const Problem& problem, const ModelChain& chain, std::span<const std::uint32_t> choice, const Recomputation* again) {
  return ChainBuilder(input, problem, chain, choice, again).run();
}

}  // namespace meshwright
