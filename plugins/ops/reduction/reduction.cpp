// Sums and means over dimensions: what is summed over is absent from the result, so sharding it gives a partial value. A
// mean divides each device's sum by the global count, which its shape says.
#include "meshwright/op.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"
#include "reduction.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.sum", "aten.sum.dim_IntList", "aten.mean", "aten.mean.dim", nullptr};

class Reduction final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& input = call.operands[0];
    const std::vector<bool> reduced = reduced_dimensions(call.node, input.rank());
    const bool keeps = call.node.boolean("keepdim", false);
    std::string from, to;
    for (std::int64_t i = 0; i < input.rank(); ++i) {
      const std::string name = " d" + std::to_string(i);
      from += name;
      if (!reduced[static_cast<std::size_t>(i)]) to += name;
      else if (keeps) to += " 1";
    }
    Result<Rule> rule = parse_rule(from + " ->" + to, call.operands, call.results);
    if (rule && is_floating(input.dtype)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({1, rule.all_factors()});
    cost.fusion = Fusion::reduction;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return reduction_gradient(call); }

  // A mean over a sharded dimension is a partial sum over the whole count.
  Status do_localize(const LocalCall& call) const override {
    const TensorType whole = call.call.operands[0], local = local_type(call.operands[0], call.mesh);
    const std::int64_t count = whole.elements() / call.call.results[0].elements();
    const std::int64_t local_count = local.elements() / local_type(call.results[0], call.mesh).elements();
    if (!call.call.node.op.starts_with("aten.mean") || count == local_count) {
      call.emit(call.call.node.attributes);
      return Done{};
    }
    const ProgramValueId sum = call.build.make(call.results[0]);
    const bool all = call.call.node.op == "aten.mean";
    call.build.emit(all ? "aten.sum" : "aten.sum.dim_IntList", call.call.node.operands, call.call.node.attributes, {}, {sum});
    call.build.emit("aten.div.Tensor", {{"self", sum}}, {{"other", static_cast<double>(count)}}, {}, call.call.node.results);
    return Done{};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return reduction_evaluate(call, *operands[0]);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "reduction", "0.1.0", "Apache-2.0", "Sums and means over dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Reduction>), destroy_plugin<OpFamily>)

}  // namespace meshwright
