#include "meshwright/linearize.h"

#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

// "view" shares storage; "mul" keeps its operands for its backward, "add" nothing.
class ChainFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = call.node.op == "view";
    return cost;
  }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
      std::vector<Operand> operands = {{"gradient", call.result_gradients[0]}};
      if (call.node.op == "mul") operands.push_back({"other", call.node.operands[1 - i].value});
      gradients.push_back(call.wanted[i] ? call.build.emit("slope", operands, {}, call.type(call.node.operands[i].value)) : kNoId);
    }
    return gradients;
  }
};

class ChainOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view) const override { return &family_; }

 private:
  ChainFamily family_;
};

const ChainOps kChainOps;
const TensorType kRow{DType::float32, {8}};

struct ChainModel {
  ValueId source(SourceKind kind, const std::string& name, TensorType type = kRow) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, std::move(type), kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId emit(const std::string& op, ValueId a, ValueId b = kNoId) { return build.emit(op, {{"a", a}, {"b", b}}, {}, kRow); }
  // With a loss made of `last`. The ops of each stage, as text.
  std::vector<std::string> stages(ValueId last) {
    graph.outputs.push_back({OutputKind::loss, build.emit("sum", {{"a", last}}, {}, TensorType{DType::float32, {}}), ""});
    mark_gradients(graph);
    const ModelAnalysis model = analyze_model(graph, kChainOps).value();
    chain = linearize(model, kChainOps);
    std::vector<std::string> texts;
    for (const ModelStage& stage : chain.stages) {
      std::string& text = texts.emplace_back();
      for (const NodeId id : stage.nodes) text += (text.empty() ? "" : " ") + graph.nodes[id].op;
    }
    return texts;
  }

  Graph graph;
  GraphBuilder build{graph, "n"};
  ModelChain chain;
};

using Texts = std::vector<std::string>;

// Each branch of a residual network is a stage, at whose end nothing is left but the sum.
TEST(Linearize, CutsBehindResidualSums) {
  ChainModel model;
  const ValueId w = model.source(SourceKind::parameter, "w"), x = model.source(SourceKind::user_input, "x");
  ValueId sum = model.emit("mul", x, w);
  for (int i = 0; i < 2; ++i) sum = model.emit("add", sum, model.emit("mul", model.emit("mul", sum, w), w));
  EXPECT_EQ(model.stages(model.emit("mul", sum, w)), (Texts{"mul", "mul mul add", "mul mul add", "mul sum"}));
  EXPECT_EQ(model.chain.stages[1].results, std::vector<ValueId>{5});
  EXPECT_TRUE(model.chain.stages.back().results.empty());
}

// A mask has no gradient: it may be made early and used by all.
TEST(Linearize, LetsCommonNodesCrossBorders) {
  ChainModel model;
  const ValueId w = model.source(SourceKind::parameter, "w"), x = model.source(SourceKind::user_input, "x");
  const ValueId mask = model.emit("mul", x, x);
  ValueId value = model.emit("mul", x, w);
  for (int i = 0; i < 2; ++i) value = model.emit("mul", model.emit("mul", value, mask), w);
  EXPECT_EQ(model.stages(value), (Texts{"mul mul mul", "mul mul", "mul sum"})) << "no backward takes what a mask is multiplied with";
  EXPECT_EQ(model.chain.is_common, (std::vector<bool>{true, false, false, false, false, false, false}));
}

// With a gradient it is one more value that crosses, and then there is no border.
TEST(Linearize, HasOneStageWhereMoreThanOneValueCrosses) {
  ChainModel model;
  const ValueId w = model.source(SourceKind::parameter, "w"), x = model.source(SourceKind::user_input, "x");
  const ValueId bias = model.emit("mul", x, w);
  ValueId value = model.emit("mul", bias, w);
  for (int i = 0; i < 2; ++i) value = model.emit("mul", value, bias);
  EXPECT_EQ(model.stages(value), (Texts{"mul", "mul mul mul sum"}));
}

// Neither a view nor an op that could work in place begins a stage: "add" needs nothing for its backward, "mul" does.
TEST(Linearize, KeepsWhatCouldBeInPlaceWithItsParent) {
  ChainModel model;
  const ValueId w = model.source(SourceKind::parameter, "w"), x = model.source(SourceKind::user_input, "x");
  const ValueId product = model.emit("mul", model.emit("mul", x, w), w);
  const ValueId sum = model.emit("add", product, w);
  const ValueId shown = model.emit("view", model.emit("mul", sum, w));
  EXPECT_EQ(model.stages(model.emit("mul", shown, w)), (Texts{"mul", "mul add", "mul view", "mul sum"}));
  EXPECT_EQ(model.chain.owner[shown], shown - 1);
}

}  // namespace
}  // namespace meshwright
