#include "meshwright/fusion.h"

#include <gtest/gtest.h>

#include "meshwright/call_price.h"
#include "meshwright/model_analysis.h"

namespace meshwright {
namespace {

// "map" is elementwise, with broadcasting; "sum" sums rows and "sum_columns" columns, "total" everything; "norm" normalizes rows;
// "flat" is a view that keeps the order, "turned" one that does not, "spread" one that repeats; anything else is a kernel of its own.
class TestFamily final : public OpFamily {
  static std::string dimensions(const TensorType& type, bool whole_rows) {
    std::string text;
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      text += type.shape[d] == 1 ? " 1" : (whole_rows && d == 1 ? " !d" : " d") + std::to_string(d);
    }
    return text;
  }

  Result<Rule> do_rule(const OpCall& call) const override {
    const std::string& op = call.node.op;
    if (op == "sum") return parse_rule("a b -> a 1", call.operands, call.results);
    if (op == "sum_columns") return parse_rule("a b -> 1 b", call.operands, call.results);
    if (op == "total") return parse_rule("a b ->", call.operands, call.results);
    if (op != "map" && op != "norm") return replicated_rule(call.operands, call.results);
    std::string text;
    for (const TensorType& type : call.operands) text += (text.empty() ? "" : ",") + dimensions(type, op == "norm");
    return parse_rule(text + " ->" + dimensions(call.results[0], op == "norm"), call.operands, call.results);
  }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    const std::string& op = call.node.op;
    OpCost cost;
    cost.alias = op == "flat" || op == "turned" || op == "spread";
    cost.keeps_order = op == "flat";
    if (op == "map") cost.fusion = Fusion::pointwise;
    if (op == "norm" || op.starts_with("sum") || op == "total") cost.fusion = Fusion::reduction;
    cost.forward.push_back({1, rule.all_factors()});
    return cost;
  }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view op) const override { return op == "unknown" ? nullptr : &family_; }

 private:
  TestFamily family_;
};

const TestOps kOps;

TensorType floats(std::vector<std::int64_t> shape) { return {DType::float32, std::move(shape)}; }

class Fused : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 6, kColumns = 4;

  ValueId source(const TensorType& type) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({"x" + std::to_string(id), type, kNoId, false});
    graph_.sources.push_back({SourceKind::user_input, id, {"x" + std::to_string(id)}});
    return id;
  }
  ValueId emit(const std::string& op, const std::vector<ValueId>& operands, const TensorType& type) {
    std::vector<Operand> named;
    for (const ValueId id : operands) named.push_back({"operand" + std::to_string(named.size()), id});
    return build_.emit(op, named, {}, type);
  }
  ValueId map(const std::vector<ValueId>& operands) { return emit("map", operands, whole_); }
  void output(ValueId value) { graph_.outputs.push_back({OutputKind::user_output, value, ""}); }

  // Of the graph as a forward; or from this node on as a backward.
  const std::vector<FusedCall>& fused(NodeId first_backward = kNoId, const std::vector<ValueId>& kept = {}) {
    atoms_ = atomize(graph_, kOps).value();
    return fused_ = fuse(graph_, atoms_, first_backward, kept);
  }
  [[nodiscard]] NodeId maker(ValueId value) const { return graph_.values[value].producer; }

  // Bytes over those of one whole tensor, and launches, of all nodes together.
  [[nodiscard]] double tensors_moved() const {
    double bytes = 0;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) bytes += work(id).bytes;
    return bytes / static_cast<double>(whole_.bytes());
  }
  [[nodiscard]] std::int64_t launches() const {
    std::int64_t sum = 0;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) sum += !atoms_.nodes[id].cost.alias && work(id).launches ? 1 : 0;
    return sum;
  }
  [[nodiscard]] Work work(NodeId id) const {
    CallShare share;
    for (const Factor& factor : atoms_.nodes[id].rule.factors) share.extents.push_back(factor.size);
    for (const Operand& operand : graph_.nodes[id].operands) share.operand_bytes.push_back(graph_.type(operand.value).bytes());
    for (const ValueId result : graph_.nodes[id].results) share.result_bytes.push_back(graph_.type(result).bytes());
    return call_work(atoms_.nodes[id].cost, share, fused_[id]);
  }

  const TensorType whole_ = floats({kRows, kColumns}), rows_ = floats({kRows, 1});
  Graph graph_;
  GraphBuilder build_{graph_, "n"};
  AtomizedGraph atoms_;
  std::vector<FusedCall> fused_;
};

TEST_F(Fused, AChainReadsAndWritesItsEnds) {
  ValueId value = source(whole_);
  for (int i = 0; i < 10; ++i) value = map({value});
  output(value);
  fused();
  EXPECT_EQ(tensors_moved(), 2);
  EXPECT_EQ(launches(), 1);
}

TEST_F(Fused, WhatIsReadTwiceIsReadOnce) {
  const ValueId x = source(whole_), y = source(whole_);
  const ValueId a = map({x, y});
  output(map({a, x}));
  fused();
  EXPECT_EQ(tensors_moved(), 3);  // x, y, and the output
}

TEST_F(Fused, AnOpByItselfIsAsWithoutACompiler) {
  const ValueId x = source(whole_);
  output(map({x, x}));
  EXPECT_EQ(fused()[0], FusedCall{});
  EXPECT_EQ(tensors_moved(), 3);
}

TEST_F(Fused, WhatAProductReadsIsWritten) {
  const ValueId a = map({source(whole_)}), b = map({a});
  const ValueId product = emit("product", {a}, whole_);
  output(map({b, product}));
  fused();
  EXPECT_EQ(fused_[maker(a)].unwritten, std::vector<bool>{false});
  EXPECT_EQ(fused_[maker(b)].unwritten, std::vector<bool>{false});  // its reader has to wait for the product
  EXPECT_EQ(fused_[maker(product)], FusedCall{});
  EXPECT_EQ(fused_[graph_.nodes.size() - 1], FusedCall{});
}

TEST_F(Fused, AnOutputAndWhatIsKeptAreWritten) {
  const ValueId a = map({source(whole_)}), b = map({a}), c = map({b});
  output(a);
  fused(kNoId, {b, c});
  for (const ValueId value : {a, b, c}) EXPECT_EQ(fused_[maker(value)].unwritten, std::vector<bool>{false});
  EXPECT_EQ(launches(), 1);
}

TEST_F(Fused, WhatTheBackwardReadsIsWritten) {
  const ValueId a = map({emit("product", {source(whole_)}, whole_)}), b = map({a});
  output(b);
  const ValueId seed = map({}), gradient = map({seed, a}), last = map({gradient});  // the seed is a kernel of its own
  output(last);
  fused(maker(seed));
  EXPECT_EQ(fused_[maker(a)].unwritten, std::vector<bool>{false});
  EXPECT_EQ(fused_[maker(b)].unwritten, std::vector<bool>{false});
  EXPECT_EQ(fused_[maker(seed)], FusedCall{});
  EXPECT_EQ(fused_[maker(gradient)].unread, (std::vector<bool>{false, false}));
  EXPECT_EQ(fused_[maker(gradient)].unwritten, std::vector<bool>{true});
  EXPECT_EQ(fused_[maker(b)].unread, std::vector<bool>{true});
  EXPECT_EQ(launches(), 4);  // of the product, the forward, the seed and the backward
}

TEST_F(Fused, AReductionJoinsWhatStandsBeforeAndBehindIt) {
  const ValueId x = source(whole_);
  const ValueId square = map({x, x}), sum = emit("sum", {square}, rows_);
  const ValueId root = emit("map", {sum}, rows_), scaled = map({x, root});
  output(emit("norm", {scaled}, whole_));
  fused();
  EXPECT_EQ(tensors_moved(), 2);
  EXPECT_EQ(launches(), 1);
}

TEST_F(Fused, ReductionsAlongOtherDimensionsAreOtherKernels) {
  const ValueId x = map({source(whole_)});
  output(emit("sum", {x}, rows_));
  output(emit("sum_columns", {x}, floats({1, kColumns})));
  fused();
  EXPECT_EQ(launches(), 2);
  EXPECT_EQ(fused_[maker(x)].unwritten, std::vector<bool>{false});  // the second one reads it
  EXPECT_EQ(fused_[1].unread, std::vector<bool>{true});
  EXPECT_EQ(fused_[2].unread, std::vector<bool>{});
}

TEST_F(Fused, TheSumOfALargeTensorEndsAKernel) {
  for (const std::int64_t columns : {4, 32'768, 32'769}) {
    SCOPED_TRACE(columns);
    graph_ = {};
    const TensorType type = floats({2, columns});
    const ValueId a = emit("map", {source(type)}, type), total = emit("total", {a}, floats({}));
    const ValueId one = emit("map", {total}, floats({}));
    output(emit("map", {a, one}, type));
    fused();
    const bool is_large = columns > 32'768;
    EXPECT_EQ(launches(), is_large ? 2 : 1);
    EXPECT_EQ(fused_[maker(total)].unread, std::vector<bool>{true});
    EXPECT_EQ(fused_[maker(one)].unread, std::vector<bool>{true});
    EXPECT_EQ(fused_[maker(a)].unwritten, std::vector<bool>{!is_large});
  }
}

TEST_F(Fused, LooksThroughViewsThatKeepTheOrderOrRepeat) {
  const ValueId a = map({source(whole_)});
  const ValueId flat = emit("flat", {a}, floats({kRows * kColumns}));
  const ValueId b = emit("map", {flat}, floats({kRows * kColumns}));
  output(b);
  fused();
  EXPECT_EQ(fused_[maker(a)].unwritten, std::vector<bool>{true});
  EXPECT_EQ(launches(), 1);
}

TEST_F(Fused, AViewInAnotherOrderEndsAKernel) {
  const ValueId a = map({source(whole_)}), b = map({a});
  const ValueId turned = emit("turned", {a}, whole_);
  output(map({b, turned}));
  fused();
  EXPECT_EQ(launches(), 2);
  EXPECT_EQ(fused_[maker(a)].unwritten, std::vector<bool>{false});
}

TEST_F(Fused, RepeatedRowsAreOfTheKernelThatReduces) {
  const ValueId x = source(whole_);
  const ValueId sum = emit("sum", {map({x})}, rows_), spread = emit("spread", {sum}, whole_);
  output(map({x, spread}));
  fused();
  EXPECT_EQ(launches(), 1);
  EXPECT_EQ(tensors_moved(), 2);
}

// a → sum of columns → c → b, and a → b: the kernel of a and b would wait for that of the sum, which waits for it.
TEST_F(Fused, NoKernelWaitsForItself) {
  const ValueId a = emit("norm", {source(whole_)}, whole_);
  const ValueId columns = emit("sum_columns", {a}, floats({1, kColumns}));
  output(map({a, columns}));
  fused();
  EXPECT_EQ(launches(), 2);
  EXPECT_EQ(fused_[maker(a)], FusedCall{});
}

TEST_F(Fused, OpsThatNobodyKnowsAreKernelsOfTheirOwn) {
  const ValueId a = map({source(whole_)});
  output(map({emit("unknown", {a}, whole_)}));
  for (const FusedCall& call : fused()) EXPECT_EQ(call, FusedCall{});
}

TEST(FusedStep, KeepsInRegistersWhatTheCallDoes) {
  const FusedCall fused{{true, false, true}, {true, false}, false};
  const Node call{"op", "n", "", {{"a", 0}, {"b", 1}, {"c", 1}}, {}, {2, 3}};
  EXPECT_EQ(fused_step(fused, call, call.operands, call.results), fused);
  EXPECT_EQ(fused_step({}, call, {{"a", 0}}, {9}), FusedCall{});
  // A step of several: it reads b, which is c too, and makes something that only the next step reads.
  EXPECT_EQ(fused_step(fused, call, {{"a", 0}, {"b", 1}}, {9}), (FusedCall{{true, false}, {false}, true}));
  EXPECT_EQ(fused_step(fused, call, {{"self", 9}}, {2}), (FusedCall{{false}, {true}, true}));
}

}  // namespace
}  // namespace meshwright
