// The kernels against the family's own definition, on random shapes.
#include "onednn.h"

#include <gtest/gtest.h>

#include <random>

#include "../matmul.h"

namespace meshwright {
namespace {

using Shape = std::vector<std::int64_t>;

class OnednnMatmulTest : public ::testing::Test {
 protected:
  std::int64_t size() { return 1 + static_cast<std::int64_t>(random_() % 24); }

  Tensor tensor(const Shape& shape) {
    Tensor made(TensorType{DType::float32, shape});
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& element : made.as<float>()) element = uniform(random_);
    return made;
  }

  void check(const std::string& op, const std::vector<Shape>& shapes, const Shape& result,
             const Attributes& attributes = {}) {
    Node node;
    node.op = op;
    node.name = "node";
    node.attributes = attributes;
    std::vector<Tensor> operands;
    OpCall call{node, {}, {TensorType{DType::float32, result}}};
    for (const Shape& shape : shapes) {
      operands.push_back(tensor(shape));
      call.operands.push_back(operands.back().type());
      node.operands.push_back({"operand", 0});
    }
    std::vector<const Tensor*> pointers;
    for (const Tensor& operand : operands) pointers.push_back(&operand);
    const Result<std::vector<Tensor>> results = OnednnMatmul().compute(call, pointers);
    ASSERT_TRUE(results.ok()) << results.error().message;
    ASSERT_EQ(results->size(), 1U);
    const std::vector<Tensor> expected = matmul_evaluate(call, pointers);
    for (std::int64_t i = 0; i < expected[0].elements(); ++i) {
      ASSERT_NEAR((*results)[0].get(i), expected[0].get(i), 1e-5)
          << op << " " << to_string(call.results[0]) << " at " << i;
    }
  }

  // A product of two matrices of `batch` (empty, or one number), each of which lies transposed or not.
  void check_transposed(const std::string& op, const Shape& batch) {
    const std::int64_t m = size(), k = size(), n = size();
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      Shape shape = batch;
      shape.insert(shape.end(), {rows, columns});
      return shape;
    };
    Node node;
    node.op = op;
    node.operands = {{"self", 0}, {"mat2", 1}};
    const std::vector<Tensor> meant = {tensor(matrix(m, k)), tensor(matrix(k, n))};
    OpCall call{node, {meant[0].type(), meant[1].type()}, {{DType::float32, matrix(m, n)}}};
    const std::vector<Tensor> expected = matmul_evaluate(call, std::vector<const Tensor*>{&meant[0], &meant[1]});
    for (const std::vector<bool>& transposed : {std::vector{false, true}, {true, false}, {true, true}}) {
      call.transposed = transposed;
      std::vector<Tensor> lying;
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(OnednnMatmul().reads_transposed(call, i));
        const std::int64_t rows = *(meant[i].shape().end() - 2), columns = meant[i].shape().back();
        Tensor& there = lying.emplace_back(transposed[i] ? TensorType{DType::float32, matrix(columns, rows)} : meant[i].type());
        for (std::int64_t at = 0; at < there.elements(); ++at) {
          const std::int64_t inside = at % (rows * columns);
          there.set(at, meant[i].get(transposed[i] ? at - inside + inside % rows * columns + inside / rows : at));
        }
      }
      const Result<std::vector<Tensor>> results = OnednnMatmul().compute(call, std::vector<const Tensor*>{&lying[0], &lying[1]});
      ASSERT_TRUE(results.ok()) << results.error().message;
      for (std::int64_t i = 0; i < expected[0].elements(); ++i) ASSERT_NEAR((*results)[0].get(i), expected[0].get(i), 1e-5) << op << " at " << i;
    }
  }

  std::mt19937 random_{17};
};

TEST_F(OnednnMatmulTest, Linear) {
  for (int i = 0; i < 30; ++i) {
    const std::int64_t b = size(), t = size(), k = size(), n = size();
    check("aten.linear", {{b, t, k}, {n, k}}, {b, t, n});
    check("aten.linear", {{t, k}, {n, k}, {n}}, {t, n});
    check("aten.linear", {{k}, {n, k}, {n}}, {n});
  }
}

TEST_F(OnednnMatmulTest, Products) {
  for (int i = 0; i < 30; ++i) {
    const std::int64_t b = size(), c = size(), m = size(), k = size(), n = size();
    check("aten.mm", {{m, k}, {k, n}}, {m, n});
    check("aten.bmm", {{b, m, k}, {b, k, n}}, {b, m, n});
    check("aten.matmul", {{b, c, m, k}, {k, n}}, {b, c, m, n});
    check("aten.matmul", {{c, m, k}, {b, 1, k, n}}, {b, c, m, n});
    check("aten.matmul", {{m, k}, {b, k, n}}, {b, m, n});
    check("aten.matmul", {{k}, {b, k, n}}, {b, n});
    check("aten.matmul", {{b, m, k}, {k}}, {b, m});
    check("aten.matmul", {{k}, {k}}, {});
  }
}

TEST_F(OnednnMatmulTest, AddendsBroadcastAndScale) {
  const Attributes scales = {{"alpha", 0.5}, {"beta", std::int64_t{-2}}};
  for (int i = 0; i < 30; ++i) {
    const std::int64_t m = size(), k = size(), n = size();
    check("aten.addmm", {{n}, {m, k}, {k, n}}, {m, n});
    check("aten.addmm", {{m, n}, {m, k}, {k, n}}, {m, n}, scales);
    check("aten.addmm", {{m, 1}, {m, k}, {k, n}}, {m, n}, scales);
    check("aten.addmm", {{1}, {m, k}, {k, n}}, {m, n}, {{"beta", 0.0}});
  }
}

TEST_F(OnednnMatmulTest, OperandsThatLieTransposed) {
  for (int i = 0; i < 30; ++i) {
    check_transposed("aten.mm", {});
    check_transposed("aten.bmm", {size()});
  }
}

TEST_F(OnednnMatmulTest, LeavesOtherTypesToTheFamily) {
  Node node;
  node.op = "aten.mm";
  const TensorType type{DType::float64, {2, 2}};
  const Tensor a(type);
  const std::vector<const Tensor*> operands = {&a, &a};
  const Result<std::vector<Tensor>> results = OnednnMatmul().compute({node, {type, type}, {type}}, operands);
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE(results->empty());
}

}  // namespace
}  // namespace meshwright
