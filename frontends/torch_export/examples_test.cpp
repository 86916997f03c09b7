// What the example models must read as. Their numbers of parameters are the published ones, tied embeddings counted
// once; for MAP's GPT-2s they follow from the widths: (50257 + 1024) h + 4 (12 h^2 + 13 h) + 2 h.
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "torch_export.h"

namespace meshwright::torch_export {
namespace {

struct Expected {
  const char* name;
  std::size_t nodes;
  std::int64_t parameters;
  std::size_t parameter_tensors;
  std::size_t tied;
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.name; }

class Examples : public testing::TestWithParam<Expected> {};

Graph read(const std::string& name) {
  auto graph = make_torch_export()->read(std::string(MESHWRIGHT_EXAMPLES) + "/" + name + ".pt2");
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return graph.ok() ? std::move(*graph) : Graph{};
}

TEST_P(Examples, HasItsNodesAndCountsTiedWeightsOnce) {
  const Expected& expected = GetParam();
  const Graph graph = read(expected.name);
  std::int64_t parameters = 0;
  std::size_t tensors = 0;
  std::size_t tied = 0;
  for (const Source& source : graph.sources) {
    if (source.kind != SourceKind::parameter) continue;
    parameters += graph.type(source.value).elements();
    ++tensors;
    tied += source.names.size() - 1;
    EXPECT_TRUE(graph.values[source.value].requires_gradient) << source.names.front();
  }
  EXPECT_EQ(graph.nodes.size(), expected.nodes);
  EXPECT_EQ(parameters, expected.parameters);
  EXPECT_EQ(tensors, expected.parameter_tensors);
  EXPECT_EQ(tied, expected.tied);
}

TEST_P(Examples, HasOneLossAndNoNodesWithoutEffect) {
  const Graph graph = read(GetParam().name);
  ASSERT_EQ(graph.outputs.size(), 1U);
  EXPECT_EQ(graph.outputs[0].kind, OutputKind::loss);
  EXPECT_EQ(graph.nodes[graph.values[graph.outputs[0].value].producer].op, "aten.cross_entropy_loss");
  for (const Node& node : graph.nodes) {
    EXPECT_FALSE(node.op.starts_with("aten._assert")) << node.name;
    EXPECT_FALSE(node.op.starts_with("torch.")) << node.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         testing::Values(Expected{"gpt2_small", 480, 124439808, 148, 1},
                                         Expected{"gpt2_map_alpha", 192, 306460672, 52, 1},
                                         Expected{"gpt2_map_beta", 192, 1015574528, 52, 1},
                                         Expected{"gpt2_map_gamma", 192, 3641761792, 52, 1},
                                         Expected{"gpt2_map_delta", 192, 13725974528, 52, 1},
                                         Expected{"bert_base", 302, 109514298, 202, 2},
                                         Expected{"vit_base", 283, 86567656, 200, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

const Node& find(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return graph.nodes.front();
}

TEST(Gpt2Small, NamesOperandsAttributesAndModulesAsTheSchemaDoes) {
  const Graph graph = read("gpt2_small");
  const Node& attention = find(graph, "scaled_dot_product_attention");
  EXPECT_EQ(attention.op, "aten.scaled_dot_product_attention");
  EXPECT_EQ(attention.module_path, "inner.transformer.h.0.attn");
  ASSERT_GE(attention.operands.size(), 3U);
  EXPECT_EQ(attention.operands[0].name, "query");
  EXPECT_EQ(attention.operands[2].name, "value");
  const Node& split = find(graph, "split");
  EXPECT_EQ(split.op, "aten.split.Tensor");
  EXPECT_EQ(split.results.size(), 3U);
  EXPECT_EQ(split.integer("split_size", 0), 768);
  EXPECT_EQ(split.integer("dim", 0), 2);
  const Node& index = find(graph, "index");
  ASSERT_GE(index.operands.size(), 2U);
  EXPECT_EQ(index.operands[1].name, "indices.0");
}

TEST(Gpt2Small, TheTiedEmbeddingKeepsBothNames) {
  const Graph graph = read("gpt2_small");
  std::set<std::string> names;
  for (const Source& source : graph.sources) {
    if (source.names.size() > 1) names.insert(source.names.begin(), source.names.end());
  }
  EXPECT_EQ(names, (std::set<std::string>{"inner.lm_head.weight", "inner.transformer.wte.weight"}));
}

TEST(ThirdPartyOp, KeepsItsDomainInItsName) {
  const Graph graph = read("third_party_op/model");
  const Node& node = find(graph, "squared_relu");
  EXPECT_EQ(node.op, "thirdparty.squared_relu");
  ASSERT_EQ(node.operands.size(), 1U);
  EXPECT_EQ(node.operands[0].name, "self");
  EXPECT_TRUE(graph.values[node.results[0]].requires_gradient);
}

TEST(Bert, BuffersHaveNoGradientAndPassNoneOn) {
  const Graph graph = read("bert_base");
  std::size_t buffers = 0;
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::parameter) continue;
    buffers += source.kind == SourceKind::buffer ? 1 : 0;
    EXPECT_FALSE(graph.values[source.value].requires_gradient) << source.names.front();
  }
  EXPECT_EQ(buffers, 2U);
}

}  // namespace
}  // namespace meshwright::torch_export
