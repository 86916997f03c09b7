#include "meshwright/step_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "meshwright/call_price.h"
#include "meshwright/step_order.h"
#include "strategy/edge_tables.h"
#include "strategy/gather_turns.h"
#include "strategy/variable_flow.h"

namespace meshwright {

namespace {

// What is priced of a variable's strategy, or of a pair of strategies.
enum class StepPart : std::uint8_t {
  forward, forward_host, backward, backward_host, again, again_host, constant, update, update_sent, update_host,  // of a variable
  convert, convert_host, convert_back, convert_back_host, gather, gather_host, regather, regather_host, reduce, reduce_host,  // of an edge
};

// A part, when it happens: somewhere between two places, `last_times` in the last microbatch, and `earlier_times` in those before it.
struct StepTerm {
  StepPart part = StepPart::forward;
  std::size_t row = kHostRow, first = 0, last = 0;
  double last_times = 1, earlier_times = 0;
  double share = 1;
  bool again = false;  // only if it runs again
};

struct WeightedPart {
  StepPart part;
  double weight;
  auto operator<=>(const WeightedPart&) const = default;
};

// Strides of a few blocks each, short ones where the model begins: there the last reductions are, and the first gathers.
std::vector<std::uint32_t> stretch_begins(const ProblemInput& input, const Problem& problem, const VariableFlow& flow) {
  std::set<std::uint32_t> units;  // by the first variable that computes with one
  for (const auto& [parameter, turn] : gather_turns(input, problem, flow)) units.insert(static_cast<std::uint32_t>(turn.forward.at));
  const std::vector<std::uint32_t> turns(units.begin(), units.end());
  const auto count = static_cast<std::uint32_t>(problem.variables.size());
  std::vector<std::uint32_t> begins = {0};
  if (turns.size() < 4) {
    for (const std::uint32_t part : {16U, 8U, 4U, 2U}) begins.push_back(count / part);
  } else {
    for (std::size_t unit = 1; unit <= turns.size() / 2; unit *= 2) {
      begins.push_back(turns[unit]);
      begins.push_back(turns[turns.size() - unit]);
    }
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  return begins;
}

}  // namespace

class StepParts::Impl {
 public:
  Impl(const ProblemInput& input, const Problem& problem, Again again)
      : input_(input),
        problem_(problem),
        again_(again),
        flow_(input.model.backward->memory, problem),
        begins_(stretch_begins(input, problem, flow_)),
        places_{begins_.size()},
        fixed_(places_.count()),
        microbatches_(static_cast<double>(input.training.microbatches)),
        in_turn_(is_in_turn(input.training)) {
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
      if (kind(i) == VariableKind::node) variable_of_[problem.variables[i].node] = i;
    }
    for (const ProblemEdge& edge : problem.edges) converted_gradients_[gradient_of(edge)] += edge.of_parameter ? 0 : 1;
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) variable_terms_.push_back(terms_of_variable(i));
    for (std::uint32_t e = 0; e < problem.edges.size(); ++e) edge_terms_.push_back(terms_of_edge(e));
    for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
      if (kind(i) == VariableKind::node) add_constants(problem.variables[i].node, forward_at(i));
    }
  }

  // `again`: by variable, whether it runs again; null: as in the problem.
  [[nodiscard]] PathTable of(std::span<const std::uint32_t> choice, const std::vector<bool>* again) const {
    PathTable table = fixed_;
    const auto add = [&](const StepTerm& term, double ticks) {
      table[term.first][term.row] += term.last_times * term.share * ticks;
      table[0][term.row] += term.earlier_times * term.share * ticks;
    };
    for (std::uint32_t i = 0; i < variable_terms_.size(); ++i) {
      for (const StepTerm& term : variable_terms_[i]) {
        if (term.again && again != nullptr && !(*again)[i]) continue;
        add(term, ticks_of(i, term.part, strategy(i, choice[i])));
      }
    }
    for (std::uint32_t e = 0; e < edge_terms_.size(); ++e) {
      const ProblemEdge& edge = problem_.edges[e];
      const Strategy &from = strategy(edge.from, choice[edge.from]), &to = strategy(edge.to, choice[edge.to]);
      for (const StepTerm& term : edge_terms_[e]) {
        if (term.again && again != nullptr && !converts_again(edge, *again)) continue;
        add(term, ticks_of_edge(e, term.part, from, to));
      }
    }
    return table;
  }

  [[nodiscard]] double fixed_ticks(const PathTable& weights) const { return length(fixed_, weights); }

  [[nodiscard]] StrategySpace space(const PathTable& weights) const {
    StrategySpace space;
    space.memory = problem_.space.memory;
    space.fixed_bytes = problem_.space.fixed_bytes;
    std::map<std::pair<std::uint32_t, std::vector<WeightedPart>>, std::vector<Ticks>> known_nodes;  // by set
    for (std::uint32_t i = 0; i < problem_.variables.size(); ++i) {
      const std::vector<WeightedPart> parts = weighted(variable_terms_[i], weights);
      const auto [costs, inserted] = known_nodes.try_emplace({problem_.variables[i].set->id, parts});
      if (inserted) {
        for (const Strategy& each : problem_.variables[i].set->strategies) {
          double ticks = 0;
          for (const WeightedPart& part : parts) ticks += part.weight * ticks_of(i, part.part, each);
          costs->second.push_back(static_cast<Ticks>(ticks));
        }
      }
      SpaceNode& node = space.nodes.emplace_back(SpaceNode{problem_.space.nodes[i].name, costs->second});
      for (std::size_t s = 0; s < node.costs.size(); ++s) {
        if (problem_.space.nodes[i].costs[s] >= kForbidden) node.costs[s] = kForbidden;
      }
    }
    std::map<std::pair<std::uint32_t, std::vector<WeightedPart>>, std::uint32_t> known;  // by table
    for (std::uint32_t e = 0; e < problem_.edges.size(); ++e) {
      SpaceEdge edge = problem_.space.edges[e];
      const std::vector<WeightedPart> parts = weighted(edge_terms_[e], weights);
      const auto [number, inserted] = known.try_emplace({edge.table, parts}, static_cast<std::uint32_t>(space.tables.size()));
      if (inserted) space.tables.push_back(table(e, problem_.space.tables[edge.table], parts));
      edge.table = number->second;
      space.edges.push_back(edge);
    }
    return space;
  }

  [[nodiscard]] const StepPlaces& places() const { return places_; }

 private:
  static bool is_in_turn(const TrainingSettings& training) {
    const StepOrder order = step_order(training).value();
    return order.microbatches == 1 || order.fullest(Phase::forward).in_flight <= 1;
  }

  [[nodiscard]] const Strategy& strategy(std::uint32_t i, std::uint32_t choice) const { return problem_.variables[i].set->strategies[choice]; }
  [[nodiscard]] VariableKind kind(std::uint32_t i) const { return problem_.variables[i].kind; }

  // --- when ---

  [[nodiscard]] std::size_t stretch(std::uint32_t variable) const {
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), variable) - begins_.begin()) - 1;
  }
  // Of microbatches that are not in turn, the last one's forward stands among others.
  [[nodiscard]] std::size_t forward_at(std::uint32_t variable) const { return in_turn_ ? 1 + stretch(variable) : 0; }
  [[nodiscard]] std::size_t backward_at(std::uint32_t variable) const { return 2 * begins_.size() - stretch(variable); }
  // Where the forward of a node runs again, or its backward.
  [[nodiscard]] std::size_t again_at(std::uint32_t variable) const {
    const Recomputation& recomputation = problem_.recomputation;
    const bool again = kind(variable) == VariableKind::node && recomputation.runs(problem_.variables[variable].node);
    return backward_at(again ? variable_of_.at(recomputation.begin[problem_.variables[variable].node]) : variable);
  }
  [[nodiscard]] std::size_t updates() const { return places_.count() - 1; }

  [[nodiscard]] StepTerm each(StepPart part, std::size_t row, std::size_t first, std::size_t last) const { return {part, row, first, last, 1, microbatches_ - 1}; }
  [[nodiscard]] StepTerm each(StepPart part, std::size_t row, std::size_t place) const { return each(part, row, place, place); }

  [[nodiscard]] StepTerm again_term(std::uint32_t variable, StepPart part, std::size_t row) const {
    StepTerm term = each(part, row, again_at(variable), again_ == Again::there ? again_at(variable) : backward_at(variable));
    term.again = true;
    return term;
  }

  // Whether what is converted along an edge of the problem is converted again where only these run again.
  [[nodiscard]] bool converts_again(const ProblemEdge& edge, const std::vector<bool>& again) const {
    const Variable& user = problem_.variables[edge.to];
    const bool made = again[edge.from] && problem_.recomputation.makes(edge.value);
    return again[edge.to] || (made && input_.model.backward->memory.nodes[user.node].saves_operand[edge.to_port]);
  }

  [[nodiscard]] std::vector<StepTerm> terms_of_variable(std::uint32_t i) const {
    const std::size_t forward = forward_at(i), backward = backward_at(i);
    switch (kind(i)) {
      case VariableKind::node: {
        return {each(StepPart::forward, kComputeRow, forward), each(StepPart::forward_host, kHostRow, forward), each(StepPart::backward, kComputeRow, backward),
                each(StepPart::backward_host, kHostRow, backward), again_term(i, StepPart::again, kComputeRow), again_term(i, StepPart::again_host, kHostRow),
                each(StepPart::constant, kComputeRow, in_turn_ ? 1 : 0, updates() - 1)};
      }
      case VariableKind::fork: {
        const VariableFlow::Uses uses = flow_.uses_of(i);
        if (uses.first == kNoId) return {};
        const std::size_t first = backward_at(uses.last), last = backward_at(uses.first);
        return {each(StepPart::backward, kComputeRow, first, last), each(StepPart::backward_host, kHostRow, first, last)};
      }
      case VariableKind::output:
        return {each(StepPart::backward, kComputeRow, begins_.size() + 1), each(StepPart::backward_host, kHostRow, begins_.size() + 1)};
      case VariableKind::parameter: {
        std::vector<StepTerm> terms = {{StepPart::update, kComputeRow, updates(), updates()},
                                   {StepPart::update_sent, kSentRow, updates(), updates()},
                                   {StepPart::update_host, kHostRow, updates(), updates()}};
        const std::size_t stored = backward_at(flow_.uses_of(i).first);
        // What of the last microbatch is added up depends on what made the sum.
        const double last = microbatches_ > 1 ? 0 : 1;
        terms.push_back({StepPart::backward, kComputeRow, stored, stored, last, microbatches_ - 1});
        return terms;
      }
    }
    return {};
  }

  [[nodiscard]] std::vector<StepTerm> terms_of_edge(std::uint32_t e) const {
    const ProblemEdge& edge = problem_.edges[e];
    if (edge.of_parameter) return terms_of_parameter(e);
    const bool from_fork = kind(edge.from) == VariableKind::fork, to_fork = kind(edge.to) == VariableKind::fork;
    const VariableFlow::Uses of_fork = from_fork || to_fork ? flow_.uses_of(from_fork ? edge.from : edge.to) : VariableFlow::Uses{};
    // Uses of a fork that want one layout share what converts it, at the first of them; a value settles where it is used first.
    const std::uint32_t first = from_fork || to_fork ? of_fork.first : edge.to;
    const std::size_t begin = forward_at(std::min(first, edge.to)), end = forward_at(to_fork ? first : edge.to);
    StepTerm convert = each(StepPart::convert, kComputeRow, begin, end), convert_host = each(StepPart::convert_host, kHostRow, begin, end);
    if (from_fork) convert.share = convert_host.share = 1 / static_cast<double>(flow_.out(edge.from).size());
    const std::size_t back = from_fork ? (kind(edge.to) == VariableKind::output ? begins_.size() + 1 : backward_at(edge.to)) : backward_at(edge.from);
    StepTerm convert_back = each(StepPart::convert_back, kComputeRow, back), convert_back_host = each(StepPart::convert_back_host, kHostRow, back);
    convert_back.share = convert_back_host.share = 1 / static_cast<double>(converted_gradients_.at(gradient_of(edge)));
    std::vector<StepTerm> terms = {convert, convert_host, convert_back, convert_back_host};
    if (!from_fork && !to_fork && meshwright::is_again(input_.model, problem_, edge)) {
      terms.push_back(again_term(edge.to, StepPart::convert, kComputeRow));
      terms.push_back(again_term(edge.to, StepPart::convert_host, kHostRow));
    }
    return terms;
  }

  // The value of the training graph that goes back along an edge. What a sum hands on to its addends is one, and converted once.
  [[nodiscard]] ValueId gradient_of(const ProblemEdge& edge) const {
    const TrainingGraph& training = input_.model.backward->training;
    const Variable& user = problem_.variables[edge.to];
    if (user.kind != VariableKind::node) return training.gradients[edge.value];
    const std::vector<ValueId>& contributions = training.contributions[user.node];
    return contributions.empty() ? kNoId : contributions[edge.to_port];
  }

  [[nodiscard]] std::vector<StepTerm> terms_of_parameter(std::uint32_t e) const {
    const std::uint32_t parameter = problem_.edges[e].from;
    const VariableFlow::Uses uses = flow_.uses_of(parameter);
    const std::size_t used = forward_at(uses.first), stored = backward_at(uses.first);
    std::vector<StepTerm> terms = {each(StepPart::gather, kGatheredRow, used), each(StepPart::gather, kSentRow, used), each(StepPart::gather_host, kHostRow, used)};
    if (uses.first_saver != kNoId) {
      const std::size_t again = backward_at(uses.last_saver);
      // Ahead, beside the unit before; for what runs again sooner.
      std::size_t sooner = again;
      for (const std::uint32_t use : flow_.out(parameter)) sooner = std::min(sooner, again_at(problem_.edges[use].to));
      const std::size_t begun = std::max(again - 1, begins_.size() + 1), first = std::max(sooner - 1, begins_.size() + 1);
      terms.push_back(each(StepPart::regather, kGatheredRow, sooner, again));
      terms.push_back(each(StepPart::regather, kSentRow, first, begun));
      terms.push_back(each(StepPart::regather_host, kHostRow, first, again));
    }
    terms.push_back({StepPart::reduce, kSentRow, stored, stored});
    terms.push_back({StepPart::reduce_host, kHostRow, stored, stored});
    return terms;
  }

  // What the operands without a gradient are made of, is issued in every plan, once at least.
  void add_constants(NodeId user, std::size_t place) {
    for (const Operand& operand : input_.graph().nodes[user].operands) {
      const Value& value = input_.graph().values[operand.value];
      if (value.producer == kNoId || value.requires_gradient || !constants_.insert(value.producer).second) continue;
      const Node& node = input_.graph().nodes[value.producer];
      const auto is_trained = [&](ValueId result) { return input_.graph().values[result].requires_gradient; };
      if (std::ranges::any_of(node.results, is_trained)) continue;
      add_constants(value.producer, place);
      const bool works = !input_.atoms().nodes[value.producer].cost.alias && value.type.elements() > 0;
      if (!works || !fused_call(input_.model, input_.training, value.producer).launches) continue;
      fixed_[place][kHostRow] += ticks(input_.profile.device.host_launch_seconds);
      fixed_[0][kHostRow] += (microbatches_ - 1) * ticks(input_.profile.device.host_launch_seconds);
    }
  }

  // --- how long, in ticks ---

  [[nodiscard]] static double ticks(double seconds) { return seconds * static_cast<double>(kTicksPerSecond); }

  [[nodiscard]] double ticks_of(std::uint32_t i, StepPart part, const Strategy& strategy) const {
    const NodeStrategy* node = strategy.node();
    switch (part) {
      case StepPart::forward: return ticks(strategy.forward_seconds + (node ? node->forward_communication_seconds - node->forward_shared_seconds : 0));
      case StepPart::backward: return ticks(strategy.backward_seconds + (node ? node->backward_communication_seconds - node->backward_shared_seconds : 0));
      case StepPart::forward_host: return ticks(strategy.forward_host_seconds);
      case StepPart::backward_host: return ticks(strategy.backward_host_seconds);
      case StepPart::again: return ticks(std::max(0.0, strategy.again_seconds - node->forward_shared_seconds));
      case StepPart::again_host: return ticks(strategy.again_host_seconds);
      case StepPart::constant: return ticks(node->constant_seconds);
      case StepPart::update: {
        const ValueId value = problem_.variables[i].value;
        const DType dtype = input_.graph().type(value).dtype;
        const std::int64_t elements = local_elements(strategy.parameter()->state, input_.atoms().values[value], input_.mesh);
        return ticks(update_seconds(input_.profile, elements, input_.training.step_bytes(dtype), dtype));
      }
      case StepPart::update_sent: return update_moves(i, *strategy.parameter(), &PathPrice::ticks);
      case StepPart::update_host: return update_moves(i, *strategy.parameter(), &PathPrice::host_ticks);
      default: return 0;
    }
  }

  [[nodiscard]] double update_moves(std::uint32_t i, const ParameterStrategy& parameter, Ticks PathPrice::* of) const {
    const EdgePrices::OfEdge& edge = problem_.edge_prices->edges[flow_.out(i).front()];
    const auto move = [&](std::uint32_t number, const Layout& from, const Layout& to) {
      return static_cast<double>(problem_.edge_prices->between(number, from, to).*of);
    };
    return move(edge.value, parameter.stored.value, parameter.state) + move(edge.gradient, parameter.stored.gradient, parameter.state) +
           move(edge.value, parameter.state, parameter.stored.value);
  }

  [[nodiscard]] double ticks_of_edge(std::uint32_t e, StepPart part, const Strategy& from, const Strategy& to) const {
    const ProblemEdge& edge = problem_.edges[e];
    const EdgePrices::OfEdge& prices = problem_.edge_prices->edges[e];
    const PortLayouts &made = from.result(edge.from_port), &needed = to.operand(edge.to_port);
    if ((is_back(part) && !prices.has_gradient) || (is_again(part) && !from.parameter()->regather)) return 0;
    const PathPrice price = is_back(part) ? problem_.edge_prices->between(prices.gradient, needed.gradient, made.gradient)
                                          : problem_.edge_prices->between(prices.value, made.value, needed.value);
    const auto ticks = static_cast<double>(is_host(part) ? price.host_ticks : price.ticks);
    return part == StepPart::reduce || part == StepPart::reduce_host ? reductions(*from.parameter()) * ticks : ticks;
  }

  // Of a step; those of the microbatches before the last one count where the last one's do, which is late enough.
  [[nodiscard]] double reductions(const ParameterStrategy& parameter) const {
    const TrainingSettings& training = input_.training;
    if (training.reduces_each_microbatch(parameter.zero)) return 1;
    return training.reduces_at_end(parameter.zero) ? 0 : 1;
  }

  // --- weighted ---

  [[nodiscard]] std::vector<WeightedPart> weighted(const std::vector<StepTerm>& terms, const PathTable& weights) const {
    std::vector<WeightedPart> parts;
    for (const StepTerm& term : terms) {
      double least = 1;
      for (std::size_t place = term.first; place <= term.last; ++place) least = std::min(least, weights[place][term.row]);
      const double weight = term.share * (term.last_times * least + term.earlier_times * weights[0][term.row]);
      if (weight > 0) parts.push_back({term.part, weight});
    }
    return parts;
  }

  [[nodiscard]] static bool is_back(StepPart part) {
    return part == StepPart::convert_back || part == StepPart::convert_back_host || part == StepPart::reduce || part == StepPart::reduce_host;
  }
  [[nodiscard]] static bool is_again(StepPart part) { return part == StepPart::regather || part == StepPart::regather_host; }
  [[nodiscard]] static bool is_host(StepPart part) {
    return part == StepPart::convert_host || part == StepPart::convert_back_host || part == StepPart::gather_host || part == StepPart::regather_host || part == StepPart::reduce_host;
  }

  // What a pair of strategies costs for each tick of its conversions.
  struct PairWeights {
    double forward = 0, forward_host = 0, back = 0, back_host = 0;

    void add(const WeightedPart& part) {
      (is_back(part.part) ? is_host(part.part) ? back_host : back : is_host(part.part) ? forward_host : forward) += part.weight;
    }
    void add(const PairWeights& other) {
      forward += other.forward, forward_host += other.forward_host;
      back += other.back, back_host += other.back_host;
    }
  };
  [[nodiscard]] static double forward_ticks(const PairWeights& weights, const PathPrice& price) {
    return weights.forward * static_cast<double>(price.ticks) + weights.forward_host * static_cast<double>(price.host_ticks);
  }
  [[nodiscard]] static double back_ticks(const PairWeights& weights, const PathPrice& price) {
    return weights.back * static_cast<double>(price.ticks) + weights.back_host * static_cast<double>(price.host_ticks);
  }

  [[nodiscard]] CostTable table(std::uint32_t e, const CostTable& known, const std::vector<WeightedPart>& parts) const {
    const ProblemEdge& edge = problem_.edges[e];
    const EdgePrices::OfEdge& prices = problem_.edge_prices->edges[e];
    const ConversionPrices &values = problem_.edge_prices->classes[prices.value], &gradients = problem_.edge_prices->classes[prices.gradient];
    const std::vector<Strategy>&from = problem_.variables[edge.from].set->strategies, &to = problem_.variables[edge.to].set->strategies;
    PairWeights once, again;  // of what is gathered again for the backward
    for (const WeightedPart& part : parts) (is_again(part.part) ? again : once).add(part);
    again.add(once);
    std::vector<std::pair<std::size_t, std::size_t>> columns;
    for (const Strategy& strategy : to) {
      const PortLayouts& port = strategy.operand(edge.to_port);
      columns.emplace_back(values.numbers.at(port.value), gradients.numbers.at(port.gradient));
    }
    CostTable table{known.rows, known.columns, std::vector<Ticks>(known.costs.size())};
    for (std::size_t i = 0; i < from.size(); ++i) {
      const PortLayouts& port = from[i].result(edge.from_port);
      const bool regathers = edge.of_parameter && from[i].parameter()->regather;
      const PairWeights& weights = regathers ? again : once;
      const std::size_t value = values.numbers.at(port.value), gradient = gradients.numbers.at(port.gradient);
      const double back = edge.of_parameter ? reductions(*from[i].parameter()) : 1;
      for (std::size_t j = 0; j < columns.size(); ++j) {
        Ticks& cost = table.costs[i * known.columns + j];
        if (known.costs[i * known.columns + j] >= kForbidden) {
          cost = kForbidden;
          continue;
        }
        const PathPrice& forward = values.paths[value * values.layouts.size() + columns[j].first];
        double ticks = forward_ticks(weights, forward);
        if (prices.has_gradient) ticks += back * back_ticks(weights, gradients.paths[columns[j].second * gradients.layouts.size() + gradient]);
        cost = static_cast<Ticks>(ticks);
      }
    }
    return table;
  }

  const ProblemInput& input_;
  const Problem& problem_;
  const Again again_;
  const VariableFlow flow_;
  const std::vector<std::uint32_t> begins_;  // of stretches, the first variable
  const StepPlaces places_;
  PathTable fixed_;  // what all choices have
  std::map<NodeId, std::uint32_t> variable_of_;
  std::set<NodeId> constants_;
  std::map<ValueId, int> converted_gradients_;  // along how many edges
  const double microbatches_;
  const bool in_turn_;
  std::vector<std::vector<StepTerm>> variable_terms_, edge_terms_;
};

StepParts::StepParts(const ProblemInput& input, const Problem& problem, Again again) : impl_(std::make_unique<const Impl>(input, problem, again)) {}
StepParts::~StepParts() = default;

PathTable StepParts::of(std::span<const std::uint32_t> choice) const { return impl_->of(choice, nullptr); }

PathTable StepParts::of(std::span<const std::uint32_t> choice, const std::vector<bool>& again) const { return impl_->of(choice, &again); }

StrategySpace StepParts::space(const PathTable& weights) const { return impl_->space(weights); }

double StepParts::fixed_ticks(const PathTable& weights) const { return impl_->fixed_ticks(weights); }

StepPlaces StepParts::places() const { return impl_->places(); }

}  // namespace meshwright
