#include "experts.h"

#include <iterator>

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {kExperts,
                                kExpertsBackward,
                                "meshwright.experts_dispatch",
                                "meshwright.experts_rows",
                                "meshwright.experts_rows_backward",
                                "meshwright.experts_combine",
                                "meshwright.experts_collect",
                                nullptr};

constexpr const char* kSaved[] = {"rows", "inner", "gate", "product", "outputs"};  // the results after the first

constexpr meshwright_config_key_v1 kKeys[] = {
    {"capacity_factor", "number", "", "0.0",
     "rows that a rank may send to another one, over their number if all experts were equally busy; 0: all that can "
     "come"},
    {"imbalance", "number", "", "1.2", "seconds of the busiest rank's experts over those if all were equally busy"},
};

class Experts final : public OpFamily {
 public:
  explicit Experts(const ExpertSettings& settings) : settings_(settings) {}

 private:
  // A plan file may say anything of it; PyTorch's schemas have no such op.
  static Status check_operands(const OpCall& call) {
    static constexpr const char* kNames[] = {"hidden", "indices", "weights", "gate_up", "down", "gate_up_bias"};
    const std::size_t count = std::size(kNames) - (call.operand("gate_up_bias") == nullptr ? 1 : 0);
    bool fits = call.operands.size() == count && call.results.size() == 1 + std::size(kSaved);
    for (std::size_t i = 0; fits && i < count; ++i) {
      fits = call.node.operands[i].name == kNames[i] && is_floating(call.operands[i].dtype) == (i != 1);
    }
    for (const TensorType& result : call.results) fits = fits && is_floating(result.dtype);
    if (fits) return Done{};
    return bad_input("a layer of experts has the operands hidden, indices, weights, gate_up, down and perhaps gate_up_bias, and six results");
  }

  static bool is_backward(const Node& node) { return node.op == kExpertsBackward; }

  Result<Rule> do_rule(const OpCall& call) const override {
    if (is_exchange_step(call.node.op)) return replicated_rule(call.operands, call.results);  // it is sharded already
    const bool backward = is_backward(call.node);
    if (Status status = backward ? Status(Done{}) : check_operands(call); !status) return status.error();
    const std::string both = call.node.boolean("interleaved", false) ? "(i !2)" : "(!2 i)";
    const bool in_first = call.node.boolean("in_first", false);
    const std::string weights = (in_first ? "e !h " + both : "e " + both + " !h") + ", " + (in_first ? "e i !o" : "e !o i");
    const std::string saved = "@t !k !h, @t !k " + both + ", @t !k i, @t !k i, @t !k !o", bias = call.operand("gate_up_bias") ? ", e " + both : "";
    Result<Rule> rule = parse_rule(backward ? "t !o, t !k, t !k, " + weights + ", " + saved + bias + " -> t !h, t !k, " + weights + bias
                                            : "t !h, t !k, t !k, " + weights + bias + " -> t !o, " + saved,
                                   call.operands, call.results);
    if (!rule) return rule;
    // Not in the last matrix: the gradient of the router's weights takes each rank's own outputs to be whole.
    rule->linear = {{backward ? 0U : 2U}};
    Exchange exchange = exchange_of(call);
    exchange.from = rule->factor("t");
    exchange.to = rule->factor("e");
    rule->exchanges = {exchange};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    if (is_exchange_step(call.node.op)) return exchange_step_cost(call);
    OpCost cost;
    cost.matrix = true;
    // A rank that has some of the experts works on the tokens that go there, and the busiest rank is what is priced.
    const std::int64_t here = rule.factors[rule.factor("e")].size, experts = ShardIndex(call.node, "experts", here).global_size();
    const double share = static_cast<double>(call.operand("indices")->shape[1]) / static_cast<double>(experts);
    const double longer = here < experts ? exchange_of(call).imbalance : 1;
    const double forward = 6 * share * longer;  // three products of each token and each of its experts
    cost.forward.push_back({is_backward(call.node) ? 2 * forward : forward,
                            {rule.factor("t"), rule.factor("e"), rule.factor("h"), rule.factor("i")}});
    cost.backward_ratio = 2;  // two products for each one of the forward
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    std::vector<const char*> differentiable = {"hidden", "weights", "gate_up", "down"};
    if (call.operand("gate_up_bias") != kNoId) differentiable.push_back("gate_up_bias");
    std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}};
    for (const char* name : {"indices", "weights", "gate_up", "down"}) operands.push_back({name, call.operand(name)});
    for (std::size_t i = 0; i < std::size(kSaved); ++i) operands.push_back({kSaved[i], call.node.results[1 + i]});
    if (call.operand("gate_up_bias") != kNoId) operands.push_back({"gate_up_bias", call.operand("gate_up_bias")});
    std::vector<TensorType> types;
    for (const char* name : differentiable) types.push_back(call.type(call.operand(name)));
    const std::vector<ValueId> made = call.build.emit(kExpertsBackward, operands, call.node.attributes, types);
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::size_t operand = *call.node.operand_index(differentiable[i]);
      if (call.wanted[operand]) gradients[operand] = made[i];
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return is_exchange_step(call.node.op) ? evaluate_exchange_step(call, operands) : evaluate_experts(call, operands);
  }

  // A rank that has some of the experts knows which.
  Status do_localize(const LocalCall& call) const override {
    if (emit_exchange(call)) return Done{};
    Attributes attributes = call.call.node.attributes;
    RankAttributes rank_attributes;
    ShardIndex::describe(*call.type("gate_up"), 0, 1, call.mesh, "experts", attributes, rank_attributes);
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }

  FoundComposites do_find_composites(const Graph& graph) const override { return find_expert_layers(graph, settings_); }

  ExpertSettings settings_;
};

void* create(const Config& config, Error& error) {
  ExpertSettings settings;
  if (config.has("capacity_factor")) settings.capacity_factor = config.number("capacity_factor");
  if (config.has("imbalance")) settings.imbalance = config.number("imbalance");
  if (settings.capacity_factor < 0 || settings.imbalance < 1) {
    error = bad_input("[ops.experts]: \"capacity_factor\" must be at least 0, and \"imbalance\" at least 1");
    return nullptr;
  }
  return static_cast<OpFamily*>(new Experts(settings));
}

}  // namespace

Exchange exchange_of(const OpCall& call) {
  Exchange exchange;
  exchange.copies = call.operand("indices")->shape[1];
  exchange.distinct = call.node.boolean("distinct", false);
  exchange.capacity_factor = call.node.number("capacity_factor", 0);
  exchange.imbalance = call.node.number("imbalance", 1);
  return exchange;
}

MESHWRIGHT_PLUGIN("ops", "experts", "0.1.0", "Apache-2.0", "Mixture-of-experts layers", kOps, kKeys, std::size(kKeys),
                  create, destroy_plugin<OpFamily>)

}  // namespace meshwright
