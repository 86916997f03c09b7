#include "altered_ops.h"

#include "meshwright/local_call.h"

namespace meshwright {

namespace {

class AlteredFamily final : public OpFamily {
 public:
  AlteredFamily(const OpFamily& family, std::function<void(Rule&)> change) : family_(family), change_(std::move(change)) {}

 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    Result<Rule> rule = family_.rule(call);
    if (rule) change_(*rule);
    return rule;
  }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override { return family_.cost(call, rule); }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override { return family_.gradient(call); }
  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    // A rule that claims too much makes shards that do not belong together, and a family need not bear those.
    if (const Result<Rule> rule = family_.rule(call); !rule) return bad_input("its shards do not belong together: " + rule.error().message);
    return family_.evaluate(call, operands);
  }
  Status do_localize(const LocalCall& call) const override { return family_.localize(call); }

  const OpFamily& family_;
  const std::function<void(Rule&)> change_;
};

}  // namespace

AlteredOps::AlteredOps(const OpTable& ops, std::string op, std::function<void(Rule&)> change) : ops_(ops), op_(std::move(op)) {
  if (const OpFamily* family = ops.find(op_)) altered_ = std::make_unique<AlteredFamily>(*family, std::move(change));
}

const OpFamily* AlteredOps::find(std::string_view op) const { return op == op_ ? altered_.get() : ops_.find(op); }

}  // namespace meshwright
