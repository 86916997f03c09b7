#include "memory_strides.h"

#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

TensorType floats(std::vector<std::int64_t> shape) { return {DType::float32, std::move(shape)}; }

struct Values {
  Values() {
    graph.values.push_back({"x", floats({2, 6, 3, 4, 5}), kNoId, false});  // batch, rows, 3, heads, width
    graph.sources.push_back({SourceKind::user_input, 0, {"x"}});
  }
  ValueId emit(const std::string& op, ValueId operand, Attributes attributes, std::vector<std::int64_t> shape) {
    return build.emit(op, {{"self", operand}}, std::move(attributes), floats(std::move(shape)));
  }
  Graph graph;
  GraphBuilder build{graph, "n"};
};

// The strides that PyTorch 2.15 gives to the same calls.
TEST(MemoryStrides, AreThoseOfPyTorch) {
  Values values;
  EXPECT_EQ(memory_strides(values.graph, 0), (Strides{360, 60, 20, 5, 1}));
  const ValueId moved = values.emit("aten.permute", 0, {{"dims", std::vector<std::int64_t>{2, 0, 3, 1, 4}}}, {3, 2, 4, 6, 5});
  EXPECT_EQ(memory_strides(values.graph, moved), (Strides{20, 360, 5, 60, 1}));
  const ValueId one = values.emit("aten.select.int", moved, {{"dim", std::int64_t{0}}, {"index", std::int64_t{1}}}, {2, 4, 6, 5});
  EXPECT_EQ(memory_strides(values.graph, one), (Strides{360, 5, 60, 1}));
  EXPECT_EQ(viewed_value(values.graph, one), 0U);
  const ValueId scaled = values.emit("aten.mul.Tensor", one, {{"other", 0.5}}, {2, 4, 6, 5});
  EXPECT_EQ(memory_strides(values.graph, scaled), (Strides{120, 5, 20, 1}));
  EXPECT_EQ(viewed_value(values.graph, scaled), scaled);
  const ValueId back = values.emit("aten.transpose.int", scaled, {{"dim0", std::int64_t{1}}, {"dim1", std::int64_t{-2}}}, {2, 6, 4, 5});
  EXPECT_EQ(memory_strides(values.graph, back), (Strides{120, 20, 5, 1}));
  EXPECT_TRUE(is_row_major({2, 6, 4, 5}, memory_strides(values.graph, back)));
  const ValueId flat = values.emit("aten.view", back, {}, {12, 20});
  EXPECT_EQ(memory_strides(values.graph, flat), (Strides{20, 1}));
  const ValueId every_other = values.emit("aten.slice.Tensor", flat, {{"dim", std::int64_t{1}}, {"step", std::int64_t{2}}}, {12, 10});
  EXPECT_EQ(memory_strides(values.graph, every_other), (Strides{20, 2}));
  const ValueId wider = values.emit("aten.unsqueeze", every_other, {{"dim", std::int64_t{1}}}, {12, 1, 10});
  const ValueId repeated = values.emit("aten.expand", wider, {}, {12, 7, 10});
  EXPECT_EQ(memory_strides(values.graph, repeated), (Strides{20, 0, 2}));
  EXPECT_EQ(memory_strides(values.graph, values.emit("aten.relu", repeated, {}, {12, 7, 10})), (Strides{70, 10, 1}));
}

TEST(MemoryStrides, SayWhereAViewNeedsACopy) {
  EXPECT_EQ(viewed_strides({4, 6}, {6, 1}, {2, 2, 3, 2}), (Strides{12, 6, 2, 1}));
  EXPECT_EQ(viewed_strides({4, 6}, {1, 4}, {2, 2, 6}), (Strides{2, 1, 4}));
  EXPECT_EQ(viewed_strides({4, 6}, {1, 4}, {24}), std::nullopt);
  EXPECT_EQ(viewed_strides({4, 1, 6}, {6, 77, 1}, {24}), (Strides{1}));
  EXPECT_EQ(viewed_strides({4, 6}, {6, 1}, {5, 5}), std::nullopt);
  EXPECT_EQ(viewed_strides({0, 6}, {6, 1}, {6, 0}), std::nullopt);
  EXPECT_FALSE(is_row_major({4, 6}, {1, 4}));
  EXPECT_TRUE(is_row_major({4, 1}, {1, 9}));
}

TEST(MemoryStrides, TakeNonsenseForRowMajor) {
  Values values;
  for (const std::int64_t at : {-99, 99}) {
    EXPECT_EQ(memory_strides(values.graph, values.emit("aten.transpose.int", 0, {{"dim0", at}}, {3, 2})), (Strides{2, 1}));
    EXPECT_EQ(memory_strides(values.graph, values.emit("aten.select.int", 0, {{"dim", at}}, {3, 2})), (Strides{2, 1}));
    EXPECT_EQ(memory_strides(values.graph, values.emit("aten.permute", 0, {{"dims", std::vector<std::int64_t>{at, 0}}}, {3, 2})), (Strides{2, 1}));
  }
}

}  // namespace
}  // namespace meshwright
