// Labels as vectors of zeros and a one. Classes shard like any dimension: a rank knows which it has.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.one_hot", nullptr};

class OneHot final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string text;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) text += " d" + std::to_string(i);
    return parse_rule(text + " ->" + text + " c", call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  Result<std::vector<ValueId>> do_gradient(const GradientCall&) const override { return std::vector<ValueId>{kNoId}; }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    const std::int64_t classes = result.shape().back();
    const ShardIndex index(call.node, "classes", classes);
    for (std::int64_t i = 0; i < operands[0]->elements(); ++i) {
      const auto label = static_cast<std::int64_t>(operands[0]->get(i));
      if (label < 0 || label >= index.global_size()) return bad_input("a label is outside of the classes");
      if (const std::optional<std::int64_t> here = index.local(label)) result.set(i * classes + *here, 1);
    }
    return results;
  }

  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    RankAttributes starts;
    const std::size_t rank = call.results[0].type.shape.size();
    ShardIndex::describe(call.results[0], rank - 1, rank, call.mesh, "classes", attributes, starts);
    call.emit(std::move(attributes), std::move(starts));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "one_hot", "0.1.0", "Apache-2.0", "Labels as vectors", kOps, nullptr, 0,
                  (create_plugin<OpFamily, OneHot>), destroy_plugin<OpFamily>)

}  // namespace meshwright
