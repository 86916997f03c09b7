// Ops and a device on which a byte, or an operation of the vector units, takes a second.
#pragma once

#include "meshwright/op.h"
#include "program_fixtures.h"

namespace meshwright::testing {

// "product" is a matrix product, "causal" works on the lower half of its square, "view" moves nothing, "look_up" reads
// what it returns; all others copy.
class TestFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.node.op == "product") return parse_rule("m k, k n -> m n", call.operands, call.results);
    if (call.node.op == "causal") return parse_rule("q k -> q k", call.operands, call.results);
    if (call.node.op == "unsupported") return bad_input("unsupported");
    return replicated_rule(call.operands, call.results);
  }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = call.node.op == "product";
    cost.alias = call.node.op == "view";
    cost.gathers = call.node.op == "look_up";
    if (cost.matrix) cost.forward.push_back({2, rule.all_factors()});
    if (call.node.op == "causal") cost.forward.push_back({1000, rule.all_factors(), true, rule.factor("q")});
    return cost;
  }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view op) const override { return op == "nobody" ? nullptr : &family_; }

 private:
  TestFamily family_;
};

inline CostProfile slow_device() {
  CostProfile profile;
  profile.device.memory_bytes_per_second = 1;
  profile.device.vector_flops_per_second = 1;
  profile.device.matrix_flops_per_second = {{DType::float32, 0.001}};
  return profile;
}

inline ProgramBuilder slow_builder(const std::vector<std::int64_t>& mesh) {
  ProgramBuilder build(mesh);
  build.profile = slow_device();
  for (MeshAxis& axis : build.program.mesh.axes) axis = {axis.size, 0, 1, "slow"};
  return build;
}

}  // namespace meshwright::testing
