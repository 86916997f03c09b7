#include "analysis/size_joins.h"

#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

using Sizes = std::vector<std::int64_t>;

TensorType type(Sizes shape) { return {DType::float32, std::move(shape)}; }

Node sized(const std::string& op, Attributes attributes, const Sizes& operand, const Sizes& result, const Sizes& new_operand, const Sizes& new_result) {
  Node node;
  node.op = op;
  node.operands = {{"self", 0}};
  node.results = {1};
  node.attributes = std::move(attributes);
  return node_of_sizes(OpCall{node, {type(operand)}, {type(result)}}, {type(new_operand)}, {type(new_result)});
}

TEST(NodeOfSizes, SizesFollowAndSignsStay) {
  EXPECT_EQ(sized("aten.view", {{"size", Sizes{4, 8, 12, -1}}}, {4, 8, 768}, {4, 8, 12, 64}, {4, 6, 80}, {4, 6, 10, 8}).integers("size"), (Sizes{4, 6, 10, -1}));
  EXPECT_EQ(sized("aten.layer_norm", {{"normalized_shape", Sizes{768}}}, {4, 768}, {4, 768}, {4, 16}, {4, 16}).integers("normalized_shape"), Sizes{16});
  EXPECT_EQ(sized("aten.repeat", {{"repeats", Sizes{16, 1, 2}}}, {5, 4}, {16, 5, 8}, {3, 4}, {6, 3, 8}).integers("repeats"), (Sizes{6, 1, 2}));
  EXPECT_EQ(sized("aten.arange.start", {{"start", std::int64_t{2}}, {"end", std::int64_t{10}}}, {}, {8}, {}, {5}).integer("end", 0), 7);
}

TEST(NodeOfSizes, HalvesStayHalvesAndAllButOneStaysThat) {
  const Node half = sized("aten.slice.Tensor", {{"dim", std::int64_t{1}}, {"start", std::int64_t{64}}, {"end", std::int64_t{128}}}, {4, 128}, {4, 64}, {4, 16}, {4, 8});
  EXPECT_EQ(half.integer("start", 0), 8);
  EXPECT_EQ(half.integer("end", 0), 16);
  const Node rest = sized("aten.slice.Tensor", {{"dim", std::int64_t{1}}, {"start", std::int64_t{1}}, {"end", std::int64_t{9223372036854775807}}}, {4, 128}, {4, 127}, {4, 6}, {4, 5});
  EXPECT_EQ(rest.integer("start", 0), 1);
  EXPECT_EQ(rest.integer("end", 0), 9223372036854775807);
  EXPECT_EQ(sized("aten.split_with_sizes", {{"dim", std::int64_t{0}}, {"split_sizes", Sizes{96, 32}}}, {128}, {96}, {32}, {24}).integers("split_sizes"), (Sizes{24, 8}));
}

}  // namespace
}  // namespace meshwright
