#include "fold.h"

#include <gtest/gtest.h>

namespace meshwright::onnx {
namespace {

Literal of(std::vector<std::int64_t> shape, std::vector<std::int64_t> integers, DType dtype = DType::int64) {
  Literal literal;
  literal.type = {dtype, std::move(shape)};
  literal.integers = std::move(integers);
  return literal;
}

Literal real(std::vector<std::int64_t> shape, std::vector<double> reals) {
  Literal literal;
  literal.type = {DType::float32, std::move(shape)};
  literal.reals = std::move(reals);
  return literal;
}

std::optional<Literal> folded(const std::string& op, const std::vector<Literal>& operands,
                              std::map<std::string, NodeAttribute, std::less<>> attributes = {}) {
  ModelNode node;
  node.op = op;
  node.outputs = {"y"};
  node.attributes = std::move(attributes);
  std::vector<const Literal*> pointers;
  for (const Literal& operand : operands) pointers.push_back(&operand);
  auto results = fold(node, pointers);
  return results ? std::optional((*results)[0]) : std::nullopt;
}

NodeAttribute number(std::int64_t value) { return value; }

TEST(Fold, ArithmeticOnShapes) {
  EXPECT_EQ(folded("Gather", {of({4}, {8, 3, 224, 225}), of({}, {-1})}), of({}, {225}));
  EXPECT_EQ(folded("Gather", {of({4}, {8, 3, 224, 225}), of({2}, {0, 2})}), of({2}, {8, 224}));
  EXPECT_EQ(folded("Unsqueeze", {of({}, {7}), of({1}, {0})}), of({1}, {7}));
  EXPECT_EQ(folded("Squeeze", {of({1}, {7}), of({1}, {0})}), of({}, {7}));
  EXPECT_EQ(folded("Concat", {of({1}, {7}), of({2}, {-1, 3})}, {{"axis", number(0)}}), of({3}, {7, -1, 3}));
  EXPECT_EQ(folded("Div", {of({2}, {7, -7}), of({}, {2})}), of({2}, {3, -3}));
  EXPECT_EQ(folded("Mul", {of({2}, {7, 2}), of({2}, {3, 4})}), of({2}, {21, 8}));
  EXPECT_EQ(folded("Mod", {of({2}, {-7, 7}), of({}, {4})}), of({2}, {1, 3}));
  EXPECT_EQ(folded("ReduceProd", {of({3}, {2, 3, 4})}, {{"keepdims", number(0)}}), of({}, {24}));
  EXPECT_EQ(folded("Slice", {of({4}, {1, 2, 3, 4}), of({1}, {1}), of({1}, {INT64_MAX})}), of({3}, {2, 3, 4}));
  EXPECT_EQ(folded("Slice", {of({4}, {1, 2, 3, 4}), of({1}, {-1}), of({1}, {INT64_MIN}), of({1}, {0}), of({1}, {-2})}),
            of({2}, {4, 2}));
  EXPECT_EQ(folded("Cast", {of({2}, {0, 2})}, {{"to", number(9)}}), of({2}, {0, 1}, DType::boolean));
  EXPECT_EQ(folded("Cast", {real({}, {2.75})}, {{"to", number(7)}}), of({}, {2}));
}

TEST(Fold, Masks) {
  const Literal line = *folded("Range", {of({}, {0}), of({}, {3}), of({}, {1})});
  EXPECT_EQ(line, of({3}, {0, 1, 2}));
  const Literal column = *folded("Unsqueeze", {line, of({1}, {1})});
  const Literal mask = *folded("LessOrEqual", {line, column});
  EXPECT_EQ(mask, of({3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}, DType::boolean));
  EXPECT_EQ(folded("Where", {mask, real({}, {0}), real({}, {-1})}), real({3, 3}, {0, -1, -1, 0, 0, -1, 0, 0, 0}));
  EXPECT_EQ(folded("Trilu", {of({2, 2}, {1, 1, 1, 1})}, {{"upper", number(0)}}), of({2, 2}, {1, 0, 1, 1}));
  EXPECT_EQ(folded("Expand", {of({1, 2}, {1, 2}), of({2}, {2, 1})}), of({2, 2}, {1, 2, 1, 2}));
  EXPECT_EQ(folded("Transpose", {of({2, 3}, {1, 2, 3, 4, 5, 6})}), of({3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(folded("Reshape", {of({2, 3}, {1, 2, 3, 4, 5, 6}), of({2}, {-1, 2})}), of({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(folded("CumSum", {of({2, 2}, {1, 2, 3, 4}), of({}, {0})}), of({2, 2}, {1, 2, 4, 6}));
  EXPECT_EQ(folded("ScatterND", {of({3}, {0, 0, 0}), of({2, 1}, {2, 0}), of({2}, {5, 6})}), of({3}, {6, 0, 5}));
}

TEST(Fold, RoundsToTheType) {
  EXPECT_EQ(folded("Add", {of({}, {250}, DType::uint8), of({}, {10}, DType::uint8)}), of({}, {4}, DType::uint8));
  const auto tenth = folded("Add", {real({}, {static_cast<double>(0.1F)}), real({}, {static_cast<double>(0.2F)})});
  EXPECT_EQ(tenth->reals[0], static_cast<double>(0.1F + 0.2F));
}

TEST(Fold, LeavesAloneWhatDoesNotFit) {
  EXPECT_FALSE(folded("Gather", {of({2}, {1, 2}), of({}, {2})}));
  EXPECT_FALSE(folded("Concat", {of({1}, {7}), of({1, 1}, {1})}, {{"axis", number(0)}}));
  EXPECT_FALSE(folded("Reshape", {of({2}, {1, 2}), of({1}, {3})}));
  EXPECT_FALSE(folded("Slice", {of({2}, {1, 2}), of({2}, {0, 0}), of({1}, {1})}));
  EXPECT_FALSE(folded("Expand", {of({1}, {1}), of({1}, {kLargestLiteral + 1})}));
  EXPECT_FALSE(folded("MatMul", {real({1, 1}, {1}), real({1, 1}, {1})}));
  EXPECT_FALSE(folded("Unsqueeze", {of({}, {7}), of({2}, {0, 0})}));
}

}  // namespace
}  // namespace meshwright::onnx
