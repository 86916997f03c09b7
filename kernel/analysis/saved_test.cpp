#include "meshwright/saved.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

// "view" shares storage, and so does each of the two "halves"; "mul" saves its operands, "exp" its result, "sum" nothing.
class TestFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.node.op == "refused") return bad_input("refused");
    return replicated_rule(call.operands, call.results);
  }
  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = call.node.op == "view" || call.node.op == "halves" || call.node.op == "refused";
    return cost;
  }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const auto emit = [&](const std::vector<Operand>& operands, std::size_t of) {
      return call.build.emit("slope", operands, {}, call.type(call.node.operands[of].value));
    };
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
      std::vector<Operand> operands;
      for (const ValueId gradient : call.result_gradients) operands.push_back({"gradient", gradient});
      if (call.node.op == "mul") operands.push_back({"other", call.node.operands[1 - i].value});
      if (call.node.op == "exp") operands.push_back({"result", call.node.results[0]});
      gradients.push_back(call.wanted[i] ? emit(operands, i) : kNoId);
    }
    return gradients;
  }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view op) const override { return op == "nobody" ? nullptr : &family_; }

 private:
  TestFamily family_;
};

const TestOps kOps;

TensorType floats(std::vector<std::int64_t> shape) { return {DType::float32, std::move(shape)}; }

// Builds a graph whose last value is its loss.
struct Model {
  ValueId source(SourceKind kind, const std::string& name, TensorType type) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, std::move(type), kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId emit(const std::string& op, const std::vector<ValueId>& operands, const TensorType& type) {
    std::vector<Operand> named;
    for (const ValueId id : operands) named.push_back({"operand" + std::to_string(named.size()), id});
    return build.emit(op, named, {}, type);
  }
  TrainingGraph train(ValueId last) {
    graph.outputs.push_back({OutputKind::loss, emit("sum", {last}, floats({})), ""});
    mark_gradients(graph);
    return differentiate(graph, kOps).value();
  }

  Graph graph;
  GraphBuilder build{graph, "n"};
};

TEST(Saved, CountsWholeStoragesOnceWithoutParameters) {
  Model model;
  const ValueId w = model.source(SourceKind::parameter, "w", floats({4, 2}));
  const ValueId x = model.source(SourceKind::user_input, "x", floats({8}));
  const ValueId flat = model.emit("view", {w}, floats({8}));
  const ValueId product = model.emit("mul", {flat, x}, floats({8}));           // saves x
  const ValueId square = model.emit("mul", {product, flat}, floats({8}));      // saves product, and a view of a parameter
  const std::vector<ValueId> halves =
      model.build.emit("halves", {{"self", square}}, {}, std::vector<TensorType>{floats({4}), floats({4})});
  const ValueId wave = model.emit("exp", {halves[0]}, floats({4}));                                    // saves itself
  const ValueId both = model.emit("mul", {model.emit("view", {wave}, floats({4})), halves[1]}, floats({4}));  // and half of `square`
  const TrainingGraph training = model.train(both);
  const std::vector<SavedStorage> saved = saved_storages(training, kOps);
  std::vector<ValueId> owners;
  for (const SavedStorage& storage : saved) owners.push_back(storage.value);
  EXPECT_EQ(owners, (std::vector<ValueId>{x, product, square, wave}));
  EXPECT_EQ(saved[2].saved, std::vector<ValueId>{halves[1]});
  EXPECT_EQ(saved[2].bytes, 8 * 4);          // whole, though a half is saved
  EXPECT_EQ(saved[3].saved.size(), 2U);      // itself, and a view of it
  EXPECT_EQ(saved[3].bytes, 4 * 4);          // once
  EXPECT_EQ(saved_bytes(training, kOps), (8 + 8 + 8 + 4) * 4);
}

TEST(Saved, AnOpThatNobodyServesOrThatRefusesMakesAStorageOfItsOwn) {
  Model model;
  const ValueId x = model.source(SourceKind::user_input, "x", floats({4}));
  const ValueId unknown = model.emit("nobody", {x}, floats({4})), refused = model.emit("refused", {x}, floats({4}));
  const ValueId view = model.emit("view", {refused}, floats({4}));
  const std::vector<ValueId> owner = storages(model.graph, kOps);
  EXPECT_EQ(owner, (std::vector<ValueId>{x, unknown, refused, refused}));
  EXPECT_EQ(owner[view], refused);
}

}  // namespace
}  // namespace meshwright
