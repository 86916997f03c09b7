#include "meshwright/op.h"

#include <exception>

namespace meshwright {

OpCall make_call(const Graph& graph, const Node& node) {
  OpCall call{node, {}, {}};
  for (const Operand& operand : node.operands) call.operands.push_back(graph.type(operand.value));
  for (const ValueId result : node.results) call.results.push_back(graph.type(result));
  return call;
}

OpFamily::~OpFamily() = default;
OpTable::~OpTable() = default;

namespace {

// Runs `body`, and turns an exception into an error that names the call.
template <class Body>
auto guard(const OpCall& call, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& problem) {
    return plugin_failed(call.node.op + " at '" + call.node.name + "': the op family threw an exception: " + problem.what());
  }
}

}  // namespace

Result<Rule> OpFamily::rule(const OpCall& call) const {
  return guard(call, [&]() -> Result<Rule> {
    Result<Rule> rule = do_rule(call);
    if (!rule) return add_context(call.node.op + " at '" + call.node.name + "'", rule.error());
    if (Status status = validate(*rule, call.operands, call.results); !status) {
      return plugin_failed(call.node.op + " at '" + call.node.name + "': " + status.error().message);
    }
    return rule;
  });
}

Result<OpCost> OpFamily::cost(const OpCall& call, const Rule& rule) const {
  return guard(call, [&]() -> Result<OpCost> {
    Result<OpCost> cost = do_cost(call, rule);
    if (!cost) return add_context(call.node.op + " at '" + call.node.name + "'", cost.error());
    for (const WorkTerm& term : cost->forward) {
      for (const FactorId factor : term.factors) {
        if (factor >= rule.factors.size()) return plugin_failed(call.node.op + ": a work term names an unknown factor");
      }
    }
    return cost;
  });
}

Result<std::vector<ValueId>> OpFamily::gradient(const OpCall& call, Graph& backward,
                                                const std::vector<ValueId>& result_gradients) const {
  return guard(call, [&] { return do_gradient(call, backward, result_gradients); });
}

Result<std::vector<ValueId>> OpFamily::do_gradient(const OpCall& call, Graph&, const std::vector<ValueId>&) const {
  return bad_input(call.node.op + " at '" + call.node.name + "': its op family states no gradient");
}

}  // namespace meshwright
