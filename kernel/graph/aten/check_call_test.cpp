#include "check_call.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

using Sizes = std::vector<std::int64_t>;

TensorType f32(Sizes shape) { return {DType::float32, std::move(shape)}; }
TensorType i64(Sizes shape) { return {DType::int64, std::move(shape)}; }

struct Written {
  std::string op;
  std::vector<std::pair<std::string, TensorType>> operands;
  std::map<std::string, Attribute, std::less<>> attributes;
  std::vector<TensorType> results;
};

// A graph of this one call.
Graph graph_of(const Written& call) {
  Graph graph;
  graph.name = "one";
  Node node;
  node.op = call.op;
  node.name = "node";
  node.attributes = call.attributes;
  for (const auto& [name, type] : call.operands) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({"in" + std::to_string(id), type, kNoId, false});
    graph.sources.push_back({SourceKind::user_input, id, {graph.values.back().name}});
    node.operands.push_back({name, id});
  }
  for (const TensorType& type : call.results) {
    node.results.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({"out" + std::to_string(node.results.back()), type, 0, false});
  }
  graph.nodes.push_back(node);
  return graph;
}

// "" for a call that passes.
std::string problem(const Written& call) {
  const Status status = validate(graph_of(call));
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::bad_input);
  return status.error().message;
}

TEST(CheckCall, PassesWhatPyTorchComputes) {
  EXPECT_EQ(
      problem(
          {"aten.linear", {{"input", f32({8, 4})}, {"weight", f32({3, 4})}, {"bias", f32({3})}}, {}, {f32({8, 3})}}),
      "");
  EXPECT_EQ(problem({"aten.view", {{"self", f32({8, 6})}}, {{"size", Sizes{4, -1}}}, {f32({4, 12})}}), "");
  EXPECT_EQ(problem({"aten.add.Tensor", {{"self", f32({8, 1})}, {"other", f32({3})}}, {}, {f32({8, 3})}}), "");
  EXPECT_EQ(problem({"aten.add.Tensor", {{"self", f32({8})}}, {{"other", std::int64_t{1}}}, {f32({8})}}), "")
      << "a number for a tensor";
  EXPECT_EQ(
      problem({"aten.slice.Tensor",
               {{"self", f32({8, 6})}},
               {{"dim", std::int64_t{1}}, {"start", std::int64_t{-4}}, {"end", INT64_MAX}, {"step", std::int64_t{3}}},
               {f32({8, 2})}}),
      "");
  EXPECT_EQ(
      problem({"aten.index.Tensor", {{"self", f32({5, 6, 7})}, {"indices.1", i64({2, 3})}}, {}, {f32({5, 2, 3, 7})}}),
      "");
  EXPECT_EQ(problem({"aten.max_pool2d",
                     {{"self", f32({1, 3, 7, 7})}},
                     {{"kernel_size", Sizes{2, 2}}, {"ceil_mode", true}},
                     {f32({1, 3, 4, 4})}}),
            "");
  EXPECT_EQ(problem({"aten.conv_transpose2d.input",
                     {{"input", f32({1, 4, 5, 5})}, {"weight", f32({4, 2, 3, 3})}},
                     {{"stride", Sizes{2, 2}}, {"output_padding", Sizes{1, 1}}, {"groups", std::int64_t{2}}},
                     {f32({1, 4, 12, 12})}}),
            "");
  EXPECT_EQ(problem({"aten.scaled_dot_product_attention",
                     {{"query", f32({2, 8, 5, 4})}, {"key", f32({2, 2, 6, 4})}, {"value", f32({2, 2, 6, 3})}},
                     {{"enable_gqa", true}},
                     {f32({2, 8, 5, 3})}}),
            "");
}

TEST(CheckCall, PassesOpsThatItDoesNotKnow) {
  EXPECT_EQ(problem({"mylib.magic", {{"anything", f32({8})}}, {{"x", std::string("y")}}, {f32({3})}}), "");
}

TEST(CheckCall, RefusesResultsOfAnotherShape) {
  EXPECT_EQ(problem({"aten.linear", {{"input", f32({8, 4})}, {"weight", f32({3, 4})}}, {}, {f32({8, 4})}}),
            "graph 'one', node 'node' (aten.linear): its result is written as [8, 4], and what it computes is [8, 3]");
  EXPECT_NE(problem({"aten.cat",
                     {{"tensors.0", f32({2, 3})}, {"tensors.1", f32({2, 3})}},
                     {{"dim", std::int64_t{1}}},
                     {f32({4, 3})}}),
            "");
  EXPECT_NE(problem({"aten.view", {{"self", f32({8, 6})}}, {{"size", Sizes{8, 7}}}, {f32({8, 7})}}), "")
      << "more than there is";
  EXPECT_NE(
      problem({"aten.split.Tensor", {{"self", f32({6})}}, {{"split_size", std::int64_t{4}}}, {f32({4}), f32({4})}}),
      "");
}

TEST(CheckCall, RefusesViewsThatChangeTheDtype) {
  EXPECT_NE(problem({"aten.view", {{"self", f32({8})}}, {{"size", Sizes{8}}}, {{DType::uint8, {8}}}}), "")
      << "it would write past its buffer";
  EXPECT_NE(problem({"aten.permute", {{"self", f32({8})}}, {{"dims", Sizes{0}}}, {{DType::float64, {8}}}}), "");
}

TEST(CheckCall, RefusesEmptyAndHugeTensors) {
  EXPECT_NE(problem({"aten.view", {{"self", f32({0, 4})}}, {{"size", Sizes{0}}}, {f32({0})}}).find("has no elements"),
            std::string::npos);
  EXPECT_NE(problem({"aten.zeros",
                     {},
                     {{"size", Sizes{std::int64_t{1} << 40, std::int64_t{1} << 40}}},
                     {f32({std::int64_t{1} << 40, std::int64_t{1} << 40})}})
                .find("impossibly large"),
            std::string::npos);
  EXPECT_NE(problem({"aten.zeros", {}, {{"size", Sizes{-1}}}, {f32({-1})}}), "");
  EXPECT_NE(problem({"aten.view", {{"self", f32({8})}}, {{"size", Sizes{-1, 0}}}, {f32({8, 1})}}), "");
}

TEST(CheckCall, RefusesMissingUnknownAndSwappedOperands) {
  EXPECT_NE(problem({"aten.layer_norm", {}, {{"normalized_shape", Sizes{4}}}, {f32({4})}})
                .find("its tensor 'input' is missing"),
            std::string::npos);
  EXPECT_NE(problem({"aten.convolution", {{"input", f32({1, 2, 3, 3})}}, {{"weight", std::int64_t{1}}}, {f32({1})}}),
            "")
      << "a weight that is a number";
  EXPECT_NE(problem({"aten.relu", {{"self", f32({4})}, {"other", f32({4})}}, {}, {f32({4})}})
                .find("it takes no tensor 'other'"),
            std::string::npos);
  EXPECT_NE(problem({"aten.linear", {{"weight", f32({4, 4})}, {"input", f32({4, 4})}}, {}, {f32({4, 4})}})
                .find("stands behind"),
            std::string::npos);
  EXPECT_NE(problem({"aten.mul.Tensor", {{"self", f32({4})}, {"self", f32({4})}}, {}, {f32({4})}}).find("twice"),
            std::string::npos);
  EXPECT_NE(problem({"aten.cat", {{"tensors.1", f32({4})}}, {}, {f32({4})}}).find("not numbered"), std::string::npos);
}

TEST(CheckCall, RefusesArgumentsOfAnotherKind) {
  EXPECT_NE(problem({"aten.softmax.int", {{"self", f32({4})}}, {{"dim", std::string("last")}}, {f32({4})}})
                .find("must be a whole number"),
            std::string::npos);
  EXPECT_NE(problem({"aten._to_copy", {{"self", f32({4})}}, {{"dtype", std::string("float32); evil()")}}, {f32({4})}})
                .find("the name of a dtype"),
            std::string::npos);
  EXPECT_NE(
      problem({"aten.relu", {{"self", f32({4})}}, {{"evil", true}}, {f32({4})}}).find("it takes no argument 'evil'"),
      std::string::npos);
  EXPECT_NE(
      problem({"aten.select.int", {{"self", f32({4})}}, {{"index", INT64_MIN}}, {f32({})}}).find("impossibly large"),
      std::string::npos);
}

TEST(CheckCall, RefusesDtypesThatDoNotGoTogether) {
  EXPECT_NE(problem({"aten.mm", {{"self", f32({4, 4})}, {"mat2", i64({4, 4})}}, {}, {f32({4, 4})}}), "");
  EXPECT_NE(problem({"aten.embedding", {{"weight", f32({4, 4})}, {"indices", f32({2})}}, {}, {f32({2, 4})}})
                .find("positions are whole numbers"),
            std::string::npos);
  EXPECT_NE(problem({"aten.exp", {{"self", f32({4})}}, {}, {{DType::complex64, {4}}}}), "")
      << "no complex number comes of real ones";
  EXPECT_NE(problem({"aten.eq.Scalar", {{"self", f32({4})}}, {{"other", std::int64_t{1}}}, {f32({4})}}), "");
  EXPECT_NE(problem({"aten.layer_norm", {{"input", i64({4})}}, {{"normalized_shape", Sizes{4}}}, {i64({4})}}), "");
}

TEST(CheckCall, NoArgumentDividesByNothing) {
  EXPECT_NE(problem({"aten.conv2d",
                     {{"input", f32({1, 2, 3, 3})}, {"weight", f32({2, 2, 1, 1})}},
                     {{"groups", std::int64_t{0}}},
                     {f32({1, 2, 3, 3})}}),
            "");
  EXPECT_NE(problem({"aten.conv2d",
                     {{"input", f32({1, 2, 3, 3})}, {"weight", f32({2, 2, 1, 1})}},
                     {{"stride", Sizes{0, 1}}},
                     {f32({1, 2, 3, 3})}}),
            "");
  EXPECT_NE(
      problem({"aten.avg_pool2d", {{"self", f32({1, 2, 3, 3})}}, {{"kernel_size", Sizes{0}}}, {f32({1, 2, 3, 3})}}),
      "");
  EXPECT_NE(problem({"aten.split.Tensor", {{"self", f32({4})}}, {{"split_size", std::int64_t{0}}}, {f32({4})}}), "");
  EXPECT_NE(problem({"aten.arange.start_step",
                     {},
                     {{"start", std::int64_t{0}}, {"end", std::int64_t{4}}, {"step", std::int64_t{0}}},
                     {i64({4})}}),
            "");
  EXPECT_NE(problem({"aten.group_norm", {{"input", f32({1, 4})}}, {{"num_groups", std::int64_t{0}}}, {f32({1, 4})}}),
            "");
  EXPECT_NE(
      problem(
          {"aten.pixel_shuffle", {{"self", f32({4, 2, 2})}}, {{"upscale_factor", std::int64_t{0}}}, {f32({4, 2, 2})}}),
      "");
}

TEST(CheckCall, GradientsAreOfFloatingPointAlone) {
  Graph graph = graph_of({"aten.neg", {{"self", i64({4})}}, {}, {i64({4})}});
  graph.values[0].requires_gradient = true;
  EXPECT_FALSE(validate(graph));
}

}  // namespace
}  // namespace meshwright
