#include "torch_ops.h"

#include <gtest/gtest.h>

namespace meshwright::torch {
namespace {

// A table of 8 rows, of which two ranks have 4 each.
class EmittedOps : public testing::Test {
 protected:
  EmitterCall call(std::string op, const std::vector<std::string>& operands, Attributes attributes) const {
    EmitterCall made{mesh_, "node_1", "node", std::move(op), {}, {kWhole}, std::move(attributes), {}, {}};
    for (const std::string& name : operands)
      made.operands.push_back({name, name.substr(0, name.find('.')) + "_text", kWhole});
    return made;
  }

  const ShardedType kWhole{{DType::float32, {8, 3}}, whole_dimensions({8, 3}), Layout(1)};
  Mesh mesh_ = [] {
    Mesh mesh;
    mesh.axes.emplace_back().size = 2;
    return mesh;
  }();
};

TEST_F(EmittedOps, AFormSaysWhatTheCallHas) {
  const EmitterCall linear = call("aten.linear", {"input", "weight"}, {});
  EXPECT_EQ(CallText(linear).in_form("F.linear({input}, {weight}[, {bias}])"), "F.linear(input_text, weight_text)");
  const EmitterCall biased = call("aten.linear", {"input", "weight", "bias"}, {});
  EXPECT_EQ(CallText(biased).in_form("F.linear({input}, {weight}[, {bias}])"),
            "F.linear(input_text, weight_text, bias_text)");
}

TEST_F(EmittedOps, AFormThatLeavesSomethingOutIsNotTaken) {
  const EmitterCall rounded = call("aten.div.Tensor", {"self", "other"}, {{"rounding_mode", std::string("floor")}});
  EXPECT_EQ(CallText(rounded).in_form("{self} / {other}"), "");
  EXPECT_EQ(CallText(rounded).by_schema(),
            "torch.ops.aten.div.Tensor(other=other_text, self=self_text, rounding_mode=\"floor\")");
}

TEST_F(EmittedOps, ListsOfOperandsAreLists) {
  const EmitterCall joined = call("aten.cat", {"tensors.0", "tensors.1"}, {{"dim", std::int64_t{1}}});
  EXPECT_EQ(CallText(joined).in_form("torch.cat({tensors}[, dim={dim}])"),
            "torch.cat([tensors_text, tensors_text], dim=1)");
}

constexpr TorchOp kOps[] = {{"torch:aten.neg", "-{self}"}};

TEST_F(EmittedOps, AFormKnowsOfNoRank) {
  EXPECT_STREQ(served(kOps)[0], "torch:aten.neg");
  EXPECT_EQ(served(kOps)[1], nullptr);
  const TorchEmitter emitter(kOps);
  EmitterCall asked = call("aten.neg", {"self"}, {});
  EXPECT_EQ(emitter.emit(asked).value().text, "-self_text");
  asked.rank_attributes["rows_starts"] = {{0}, {{4}}};
  EXPECT_EQ(emitter.emit(asked).value().text, "");
  asked.rank_attributes.clear();
  asked.steps.push_back({"aten.neg", {}, {}, {}, {}});
  EXPECT_EQ(emitter.emit(asked).value().text, "");
}

TEST_F(EmittedOps, PositionsAreAnArgument) {
  EmitterCall asked =
      call("aten.embedding", {"weight"},
           {{"rows_atoms", std::vector<std::int64_t>{8}}, {"rows_extents", std::vector<std::int64_t>{4}}});
  EXPECT_EQ(positions_argument(asked, "rows"), "");
  asked.rank_attributes["rows_starts"] = {{0}, {{4}}};
  EXPECT_EQ(CallText(asked).helper("embedding", {"weight"}, {"padding_idx"}, {positions_argument(asked, "rows"), ""}),
            "embedding(weight_text, rows=positions((8,), (4,), (0,), ((4,),)))");
}

TEST_F(EmittedOps, WhatIsDrawnAlikeIsWhole) {
  EmitterCall asked = call("aten.poisson", {"self"}, {});
  const Result<EmittedOp> drawn = write_drawn_alike(asked, CallText(asked));
  EXPECT_EQ(drawn.value().text, "drawn_alike(lambda: torch.ops.aten.poisson.default(self=self_text), stream=\"node\")");
  EXPECT_TRUE(drawn->draws);
  asked.results[0].layout.place(0, Placement::shard(0));
  EXPECT_FALSE(write_drawn_alike(asked, CallText(asked)).ok());
}

}  // namespace
}  // namespace meshwright::torch
