// Prints every case with its drawn operands, and some of the same calls in float32 on drawn shapes, what the families compute and the gradients that they state, as one JSON
// array: what tests/gradients/compare_with_pytorch.py reads.
#include <cmath>
#include <cstdio>

#include "case_runner.h"
#include "drawn_case.h"
#include "report/plan_json.h"

namespace meshwright::test {
namespace {

using host::Json;

Json numbers_of(const Tensor& tensor) {
  Json numbers = Json::Array{};
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double number = tensor.get(i);
    if (std::isfinite(number)) numbers.push(number);
    else numbers.push(std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
  }
  return numbers;
}

Json tensor_json(const std::string& name, const Tensor& tensor) {
  Json json;
  Json shape = Json::Array{};
  for (const std::int64_t size : tensor.shape()) shape.push(size);
  json.add("name", name).add("dtype", meshwright::name(tensor.type().dtype)).add("shape", std::move(shape));
  json.add("numbers", numbers_of(tensor));
  return json;
}

constexpr std::uint64_t kDraws = 3;  // of each case, beside itself

// Adds the case to `cases`; `draw` is 0 for the case itself.
Status add_case(const OpCase& op_case, std::uint64_t draw, const OpTable& ops, Json& cases) {
  std::map<ValueId, Tensor> sources = draw_sources(op_case, 1 + draw);
  const Graph graph = with_loss(op_case, sources);
  const Result<TrainingGraph> training = differentiate(graph, ops);
  if (!training) return training.error();
  const Result<std::vector<Tensor>> values = interpret(training->graph, ops, sources);
  if (!values) return values.error();
  const Node& node = graph.nodes[0];
  Json json;
  json.add("family", op_case.file).add("number", op_case.number).add("draw", draw).add("op", node.op);
  Json attributes{Json::Object{}};
  for (const auto& [name, value] : node.attributes) attributes.add(name, host::attribute_json(value));
  json.add("attributes", std::move(attributes));
  Json operands{Json::Array{}}, results{Json::Array{}};
  for (const Operand& operand : node.operands) {
    Json one = tensor_json(operand.name, sources.at(operand.value));
    const ValueId gradient = training->gradients[operand.value];
    if (gradient != kNoId && graph.values[operand.value].requires_gradient) one.add("gradient", numbers_of((*values)[gradient]));
    operands.push(std::move(one));
  }
  for (const ValueId result : node.results) {
    Json one = tensor_json(graph.values[result].name, (*values)[result]);
    const ValueId weights = weights_of(graph, result);
    if (weights != kNoId) one.add("weights", numbers_of(sources.at(weights)));
    results.push(std::move(one));
  }
  Json saved{Json::Array{}};  // of the call's tensors, for its own gradient
  for (std::size_t i = 0; i < training->forward_of.size(); ++i) {
    if (training->forward_of[i] != 0) continue;
    for (const Operand& used : training->graph.nodes[training->first_backward + i].operands) {
      if (used.value < graph.values.size() && graph.values[used.value].name.find("weights") != 0) saved.push(graph.values[used.value].name);
    }
  }
  json.add("saved", std::move(saved));
  json.add("operands", std::move(operands)).add("results", std::move(results));
  cases.push(std::move(json));
  return Done{};
}

}  // namespace
}  // namespace meshwright::test

int main() {
  using namespace meshwright;
  const std::unique_ptr<OpTable> ops = test::open_ops();
  host::Json cases;
  for (const std::string& family : test::families_with_cases()) {
    for (const OpCase& op_case : test::read_cases(family)) {
      // What has no operands has its size in attributes.
      const std::uint64_t draws = op_case.graph.nodes[0].operands.empty() ? 0 : test::kDraws;
      for (std::uint64_t draw = 0; draw <= draws; ++draw) {
        const Status added = test::add_case(draw == 0 ? op_case : test::draw_case(op_case, *ops, draw), draw, *ops, cases);
        if (added) continue;
        std::fprintf(stderr, "%s, case %d, draw %d: %s\n", family.c_str(), op_case.number, static_cast<int>(draw),
                     added.error().message.c_str());
        return 1;
      }
    }
  }
  const std::string text = host::write_json(cases, true);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}
