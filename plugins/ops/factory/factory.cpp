// Tensors made from nothing but a shape.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.arange", "aten.arange.start", "aten.arange.start_step", "aten.new_ones",
                                "aten.new_zeros", "aten.new_full", "aten.ones", "aten.zeros", "aten.full",
                                "aten.ones_like", "aten.zeros_like", "aten.full_like", "aten.scalar_tensor", nullptr};

class Factory final : public OpFamily {
 private:
  // Every dimension shards: each rank makes its own part (arange from its own offset). The operand of new_ones and its
  // like gives only a dtype and, to the *_like ones, a shape.
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string result, operand;
    const bool like = call.node.op.ends_with("_like");
    for (std::size_t i = 0; i < call.results[0].shape.size(); ++i) result += " d" + std::to_string(i);
    if (!call.operands.empty()) {
      for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
        operand += (like ? " d" : " !w") + std::to_string(i);
      }
    }
    return parse_rule(operand + " -> " + result, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    return std::vector<ValueId>(call.node.operands.size(), kNoId);  // a shape has no gradient
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const>) const override {
    const std::string& op = call.node.op;
    const bool counts = op.starts_with("aten.arange");
    const double start = call.node.number("start", 0), step = call.node.number("step", 1);
    double fill = op.find("ones") != std::string::npos ? 1 : 0;
    if (op.find("full") != std::string::npos) fill = call.node.number("fill_value", 0);
    if (op == "aten.scalar_tensor") fill = call.node.number("s", 0);
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.results[0]);
    const ShardIndex positions(call.node, "positions", result.elements());
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      result.set(i, counts ? start + step * static_cast<double>(positions.global(i)) : fill);
    }
    return results;
  }

  // A rank counts from where it stands.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes rank_attributes;
    if (attributes.contains("size")) attributes["size"] = local_type(call.results[0], call.mesh).shape;
    if (call.call.node.op.starts_with("aten.arange")) {
      ShardIndex::describe(call.results[0], 0, 1, call.mesh, "positions", attributes, rank_attributes);
    }
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "factory", "0.1.0", "Apache-2.0", "Tensors made from nothing", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Factory>), destroy_plugin<OpFamily>)

}  // namespace meshwright
