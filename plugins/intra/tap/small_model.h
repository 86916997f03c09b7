// Two linear layers with an activation between, and a loss that sums: what the tests of TAP's parts search.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <stdexcept>

#include "meshwright/graph_builder.h"
#include "meshwright/strategy.h"

namespace meshwright::tap::test {

// linear, relu, add (of something that is broadcast over rows) and sum, by their rules.
class SmallFamily final : public OpFamily {
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::map<std::string, std::string, std::less<>> rules = {
        {"linear", "b k, n k -> b n"}, {"relu", "b n -> b n"}, {"add", "b n, b n -> b n"}, {"scale", "b n, n -> b n"}, {"sum", "b n ->"}};
    return parse_rule(rules.at(call.node.op), call.operands, call.results);
  }
  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = call.node.op == "linear";
    cost.forward = {{cost.matrix ? 2.0 : 1.0, rule.all_factors()}};
    return cost;
  }
  // What it is nobody asks here, but an op without one would run replicated.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients;
    for (const Operand& operand : call.node.operands) {
      gradients.push_back(call.build.emit("slope", {{"gradient", call.result_gradients[0]}}, {}, call.type(operand.value)));
    }
    return gradients;
  }
};

class SmallOps final : public OpTable {
 public:
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return &family_; }

 private:
  SmallFamily family_;
};

// The cheapest path, by Dijkstra's algorithm on single moves.
class CheapestPath final : public ConversionSearch {
  Result<ConversionPath> do_find(const ConversionProblem& problem, const Layout& from, const Layout& to) const override {
    std::map<Layout, ConversionPath> done;
    const auto dearer = [](const auto& a, const auto& b) { return a.first.ticks > b.first.ticks; };
    std::priority_queue<std::pair<ConversionPath, Layout>, std::vector<std::pair<ConversionPath, Layout>>, decltype(dearer)> open(dearer);
    open.push({ConversionPath(), from});
    while (!open.empty()) {
      const auto [path, layout] = open.top();
      open.pop();
      if (!done.try_emplace(layout, path).second) continue;
      if (layout == to) return path;
      for (const Move& move : one_step_moves(problem, layout)) {
        ConversionPath longer = path;
        longer.moves.push_back(move);
        longer.ticks += move_price(problem, layout, move).ticks;
        open.push({std::move(longer), move.result});
      }
    }
    return infeasible("there is no such path");
  }
};

struct SmallModel {
  Graph graph;
  ModelAnalysis model;  // of `graph`
  Mesh mesh;
  CostProfile profile;
  SmallOps ops;
  CheapestPath conversions;
  TrainingSettings training;
  Problem problem;
  ValueId input = kNoId, up = kNoId, scale = kNoId, down = kNoId;

  // `batch` rows of 16 features, 64 in between; one mesh axis for each size.
  SmallModel(std::int64_t batch, const std::vector<std::int64_t>& axes) {
    graph.name = "small";
    input = source(SourceKind::user_input, "rows", {batch, 16});
    up = source(SourceKind::parameter, "up.weight", {64, 16});
    scale = source(SourceKind::parameter, "scale.weight", {64});
    down = source(SourceKind::parameter, "down.weight", {16, 64});
    GraphBuilder build(graph, "n");
    build.set_module_path("up");
    ValueId value = build.emit("linear", {{"input", input}, {"weight", up}}, {}, rows(batch, 64));
    build.set_module_path("scale");
    value = build.emit("scale", {{"self", value}, {"other", scale}}, {}, rows(batch, 64));
    value = build.emit("relu", {{"self", value}}, {}, rows(batch, 64));
    build.set_module_path("down");
    value = build.emit("linear", {{"input", value}, {"weight", down}}, {}, rows(batch, 16));
    build.set_module_path("");
    graph.outputs = {{OutputKind::loss, build.emit("sum", {{"self", value}}, {}, TensorType{DType::float32, {}}), ""}};
    mark_gradients(graph);
    model = analyze_model(graph, ops).value();
    for (const std::int64_t size : axes) mesh.axes.push_back({size, 1e-6, 1e-8, "link"});
    profile.device.memory_bytes_per_second = profile.device.vector_flops_per_second = 1e12;
    Result<Problem> built = build_problem(given());
    if (!built) throw std::runtime_error(built.error().message);
    problem = std::move(*built);
  }

  [[nodiscard]] ProblemInput given() const { return {{model, training, ops, profile, conversions}, mesh, {.zero = ZeroStage::none}}; }

  [[nodiscard]] std::uint32_t variable(const std::string& name) const {
    for (std::uint32_t v = 0; v < problem.variables.size(); ++v) {
      if (problem.variables[v].name == name) return v;
    }
    return kNoId;
  }

 private:
  static TensorType rows(std::int64_t batch, std::int64_t features) { return {DType::float32, {batch, features}}; }

  ValueId source(SourceKind kind, const std::string& name, std::vector<std::int64_t> shape) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, {DType::float32, std::move(shape)}, kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
};

}  // namespace meshwright::tap::test
