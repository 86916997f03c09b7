// Gradients of calls whose operands have several dtypes, or whose result has another one: they are the operands' dtypes, and
// the numbers are those of the same call in float64 alone.
#include <gtest/gtest.h>

#include <fstream>

#include "case_runner.h"

namespace meshwright {
namespace {

OpCase case_of(const std::string& text) {
  const std::string path = testing::TempDir() + "promoted_dtype_case.txt";
  std::ofstream(path) << text;
  return read_op_cases(path).value().at(0);
}

std::string in_float64(std::string text) {
  for (std::size_t at = text.find("float32"); at != std::string::npos; at = text.find("float32")) text.replace(at, 7, "float64");
  return text;
}

std::vector<Tensor> gradients_of(const std::string& text, const OpTable& ops) {
  const OpCase op_case = case_of(text);
  std::map<ValueId, Tensor> sources = draw_sources(op_case, 1);
  const Graph graph = with_loss(op_case, sources);
  const Result<TrainingGraph> training = differentiate(graph, ops);
  EXPECT_TRUE(training.ok()) << text << (training ? "" : training.error().message);
  if (!training) return {};
  const std::vector<Tensor> values = interpret(training->graph, ops, sources).value();
  std::vector<Tensor> gradients;
  for (const Operand& operand : op_case.graph.nodes[0].operands) {
    if (!graph.values[operand.value].requires_gradient) continue;
    gradients.push_back(values.at(training->gradients.at(operand.value)));
    EXPECT_EQ(gradients.back().type(), graph.type(operand.value)) << text;
  }
  return gradients;
}

TEST(PromotedDtype, GradientsHaveTheOperandsDtype) {
  const std::unique_ptr<OpTable> ops = test::open_ops();
  const std::string wide = "attribute dtype float64\noperand self float32[2, 4] gradient\n";
  const std::string narrow = "operand self float32[4, 3] gradient positive\n", row = "float64[3] gradient positive\nresult float64[4, 3]\n";
  for (const std::string& text : {
           "op aten.sum\n" + wide + "result float64[]\n",
           "op aten.mean.dim\nattribute dim [1]\n" + wide + "result float64[2]\n",
           "op aten.softmax.int\nattribute dim 1\n" + wide + "result float64[2, 4]\n",
           "op aten.cumsum\nattribute dim 1\n" + wide + "result float64[2, 4]\n",
           "op aten.prod\n" + wide + "result float64[]\n",
           "op aten.linalg_vector_norm\nattribute dim [1]\n" + wide + "result float64[2]\n",
           "op aten.add.Tensor\n" + narrow + "operand other " + row,
           "op aten.mul.Tensor\n" + narrow + "operand other " + row,
           "op aten.div.Tensor\n" + narrow + "operand other " + row,
           "op aten.maximum\n" + narrow + "operand other " + row,
           "op aten.pow.Tensor_Tensor\n" + narrow + "operand exponent " + row,
           "op aten.where.self\noperand condition bool[4, 3]\n" + narrow + "operand other " + row,
       }) {
    const std::vector<Tensor> mixed = gradients_of(text, *ops), plain = gradients_of(in_float64(text), *ops);
    ASSERT_EQ(mixed.size(), plain.size()) << text;
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      for (std::int64_t k = 0; k < mixed[i].elements(); ++k) EXPECT_NEAR(mixed[i].get(k), plain[i].get(k), 1e-5) << text;
    }
  }
}

}  // namespace
}  // namespace meshwright
