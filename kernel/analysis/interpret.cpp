#include "meshwright/interpret.h"

namespace meshwright {

Result<std::vector<Tensor>> interpret(const Graph& graph, const OpTable& ops, const std::map<ValueId, Tensor>& sources) {
  std::vector<Tensor> values(graph.values.size());
  for (const Source& source : graph.sources) {
    const auto given = sources.find(source.value);
    if (given == sources.end() || given->second.type() != graph.type(source.value)) {
      return bad_input("graph '" + graph.name + "': '" + graph.values[source.value].name + "' is not given as " +
                       to_string(graph.type(source.value)));
    }
    values[source.value] = given->second;
  }
  for (const Node& node : graph.nodes) {
    const OpFamily* family = ops.find(node.op);
    if (!family) return bad_input(node.op + " at '" + node.name + "': no op family serves it");
    std::vector<const Tensor*> operands;
    for (const Operand& operand : node.operands) operands.push_back(&values[operand.value]);
    Result<std::vector<Tensor>> results = family->evaluate(make_call(graph, node), operands);
    if (!results) return results.error();
    for (std::size_t i = 0; i < node.results.size(); ++i) values[node.results[i]] = std::move((*results)[i]);
  }
  return values;
}

}  // namespace meshwright
