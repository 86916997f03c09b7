// What families say of their gradients, against what their evaluate says: the loss is a weighted sum of all results, and
// every element of every differentiable operand is moved a little both ways.
#include <gtest/gtest.h>

#include <cmath>

#include "case_runner.h"

namespace meshwright {
namespace {

class Gradient : public testing::TestWithParam<std::string> {};

TEST_P(Gradient, IsWhatSmallStepsShow) {
  const std::unique_ptr<OpTable> ops = test::open_ops();
  for (const OpCase& op_case : test::read_cases(GetParam())) {
    const std::string where = op_case.file + ", case " + std::to_string(op_case.number) + " (" + op_case.graph.nodes[0].op + ")";
    std::map<ValueId, Tensor> sources = draw_sources(op_case, 1);
    const Graph graph = with_loss(op_case, sources);
    const ValueId loss = graph.outputs[0].value;
    const auto loss_of = [&](const std::map<ValueId, Tensor>& given) {
      Result<std::vector<Tensor>> values = interpret(graph, *ops, given);
      EXPECT_TRUE(values.ok()) << where << ": " << (values.ok() ? "" : values.error().message);
      return values.ok() ? (*values)[loss].get(0) : 0.0;
    };
    const Result<TrainingGraph> training = differentiate(graph, *ops);
    ASSERT_TRUE(training.ok()) << where << ": " << training.error().message;
    const Result<std::vector<Tensor>> values = interpret(training->graph, *ops, sources);
    ASSERT_TRUE(values.ok()) << where << ": " << values.error().message;
    for (const Source& source : graph.sources) {
      if (source.kind != SourceKind::parameter) continue;
      const ValueId gradient = training->gradients[source.value];
      ASSERT_NE(gradient, kNoId) << where << ": no gradient of " << source.names[0];
      double largest = 1e-3;
      const Tensor& stated = (*values)[gradient];
      for (std::int64_t i = 0; i < stated.elements(); ++i) largest = std::max(largest, std::abs(stated.get(i)));
      constexpr double kStep = 1e-5;
      for (std::int64_t i = 0; i < stated.elements(); ++i) {
        std::map<ValueId, Tensor> moved = sources;
        const double here = sources.at(source.value).get(i);
        moved.at(source.value).set(i, here + kStep);
        const double above = loss_of(moved);
        moved.at(source.value).set(i, here - kStep);
        const double shown = (above - loss_of(moved)) / (2 * kStep);
        ASSERT_NEAR(stated.get(i), shown, 1e-6 * largest) << where << ": element " << i << " of " << source.names[0];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Gradient, testing::ValuesIn(test::families_with_cases()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace meshwright
