#include "translate.h"

#include <gtest/gtest.h>

#include "tied.h"

namespace meshwright::torch_export {
namespace {

TEST(OpName, DropsThePrefixAndTheDefaultOverload) {
  EXPECT_EQ(op_name("torch.ops.aten.linear.default"), "aten.linear");
  EXPECT_EQ(op_name("torch.ops.aten.add.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(op_name("torch.ops.mylib.scan.default"), "mylib.scan");
}

TEST(CheckTarget, RefusesWhatWorksInPlaceAndNothingElse) {
  for (const char* target : {"torch.ops.aten.add_.Tensor", "torch.ops.aten.__iand__.Tensor", "torch.ops.aten.mul.out",
                             "torch.ops.aten.relu_.default", "torch.ops.aten.cumsum.dimname_out"}) {
    const Status status = check_target(target);
    ASSERT_FALSE(status.ok()) << target;
    EXPECT_NE(status.error().message.find("run_decompositions"), std::string::npos) << status.error().message;
  }
  for (const char* target : {"torch.ops.aten.__and__.Tensor", "torch.ops.aten._to_copy.default",
                             "torch.ops.aten._unsafe_view.default", "torch.ops.mylib.op.default"}) {
    EXPECT_TRUE(check_target(target).ok()) << target;
  }
}

TEST(CheckTarget, RefusesControlFlowAndArithmeticOnSizes) {
  EXPECT_FALSE(check_target("torch.ops.higher_order.cond").ok());
  EXPECT_FALSE(check_target("_operator.mul").ok());
}

TEST(InnermostModule, IsTheSecondFieldOfTheLastEntry) {
  EXPECT_EQ(innermost_module("L__self__,,Model;L__self___h,transformer.h.0,Block"), "transformer.h.0");
  EXPECT_EQ(innermost_module("L__self__,,Model"), "");
  EXPECT_EQ(innermost_module(""), "");
}

WeightPlace place(const std::string& payload, std::vector<std::int64_t> shape, std::int64_t offset = 0) {
  WeightPlace result{payload, {}, offset, {}};
  result.tensor.dtype_code = 7;
  result.tensor.shape = std::move(shape);
  return result;
}

TEST(TiedWeights, GoByTheBytesWhereThereAreAny) {
  const std::map<std::string, std::uint64_t> payloads = {{"weight_0", 400}, {"weight_1", 400}};
  const TiedWeights tied({{"a", place("weight_0", {10, 10})},
                          {"b", place("weight_1", {10, 10})},
                          {"c", place("weight_1", {10, 10})},
                          {"half", place("weight_1", {10, 10}, 50)}},
                         payloads);
  EXPECT_EQ(tied.find("c", {"a", "b"}), "b");
  EXPECT_EQ(tied.find("c", {"a"}), std::nullopt);
  EXPECT_EQ(tied.find("half", {"a", "b"}), std::nullopt);
}

TEST(TiedWeights, OnTheMetaDeviceOnlyAnUnmistakableTwinIsTied) {
  const std::map<std::string, std::uint64_t> payloads = {{"weight_0", 0}};
  const TiedWeights tied({{"wte", place("weight_0", {50, 8})},
                          {"head", place("weight_0", {50, 8})},
                          {"other", place("weight_0", {50, 8})},
                          {"bias", place("weight_0", {8})},
                          {"scale", place("weight_0", {8})}},
                         payloads);
  EXPECT_EQ(tied.find("wte", {"head", "bias"}), "head");
  EXPECT_EQ(tied.find("wte", {"head", "other"}), std::nullopt);
  EXPECT_EQ(tied.find("bias", {"head", "scale"}), "scale");
  EXPECT_EQ(tied.find("bias", {"wte", "head"}), std::nullopt);
}

}  // namespace
}  // namespace meshwright::torch_export
