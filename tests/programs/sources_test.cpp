// What is drawn for a model whose file holds no values.
#include "sources.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

Graph with_inputs(const std::vector<std::pair<std::string, TensorType>>& inputs) {
  Graph graph;
  for (const auto& [name, type] : inputs) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, type, kNoId, false});
    graph.sources.push_back({SourceKind::user_input, id, {name}});
  }
  return graph;
}

double mean_of(const Tensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) sum += tensor.get(i);
  return sum / static_cast<double>(tensor.elements());
}

// A mask that masks nothing would let a plan pass that loses it.
TEST(SampledSources, HaveBothValuesOfABooleanMostlyTrue) {
  const Graph graph = with_inputs({{"mask", {DType::boolean, {32, 32}}}, {"numbered_mask", {DType::int64, {32, 32}}}});
  const auto sources = sample_sources(graph, {}, 0).value();
  for (const ValueId id : {ValueId{0}, ValueId{1}}) {
    EXPECT_GT(mean_of(sources.at(id)), 0.8) << graph.values[id].name;
    EXPECT_LT(mean_of(sources.at(id)), 0.95) << graph.values[id].name;
  }
}

TEST(SampledSources, AreTheSameEachTimeAndOthersForAnotherSeedOrName) {
  const Graph graph = with_inputs({{"mask", {DType::boolean, {32, 32}}}, {"other", {DType::boolean, {32, 32}}}});
  const auto sources = sample_sources(graph, {}, 0).value();
  const auto again = sample_sources(graph, {}, 0).value();
  const auto seeded = sample_sources(graph, {}, 1).value();
  const auto differing = [](const Tensor& a, const Tensor& b) {
    int count = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) count += a.get(i) != b.get(i) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(differing(sources.at(0), again.at(0)), 0);
  EXPECT_GT(differing(sources.at(0), seeded.at(0)), 0);
  EXPECT_GT(differing(sources.at(0), sources.at(1)), 0);
}

}  // namespace
}  // namespace meshwright
