// Tensors made from nothing but a shape.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "random_stream.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.arange", "aten.arange.start", "aten.arange.start_step", "aten.new_ones",
                                "aten.new_zeros", "aten.new_full", "aten.ones", "aten.zeros", "aten.full",
                                "aten.ones_like", "aten.zeros_like", "aten.full_like", "aten.scalar_tensor",
                                "aten.linspace", "aten.rand", "aten.randn", "aten.rand_like", "aten.randn_like",
                                "aten.randint", "aten.randint.low", "aten.randperm", "aten.empty.memory_format",
                                "aten.empty_strided", "aten.empty_like", "aten.new_empty",
                                "aten.zero", "aten.bernoulli", "aten.bernoulli.p", "aten.uniform",
                                "aten.normal_functional", "aten.exponential", "aten.eye", "aten.eye.m", nullptr};

bool is_identity(const Node& node) { return node.op.starts_with("aten.eye"); }

// Filled with numbers that are drawn: the operand gives the shape.
bool fills(const Node& node) {
  return node.op == "aten.uniform" || node.op == "aten.normal_functional" || node.op == "aten.exponential";
}

bool is_random(const Node& node) { return node.op.starts_with("aten.rand") || node.op.starts_with("aten.bernoulli") || fills(node); }
bool is_permutation(const Node& node) { return node.op == "aten.randperm"; }
// Whether elements are counted along the one dimension.
bool counts(const Node& node) { return node.op.starts_with("aten.arange") || node.op == "aten.linspace"; }

// The numbers 0, 1, ... in an order that the stream decides.
void permute(const RandomStream& random, Tensor& result) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(result.elements()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return random.uniform(a) < random.uniform(b); });
  for (std::size_t i = 0; i < order.size(); ++i) result.set(static_cast<std::int64_t>(i), static_cast<double>(order[i]));
}

// Element by element from the stream, by the global index, so that a sharded tensor is the serial one.
double draw(const Node& node, const RandomStream& random, std::int64_t element) {
  if (node.op.starts_with("aten.randint")) {
    const double low = node.number("low", 0), high = node.number("high", 1);
    return std::floor(low + random.uniform(element) * (high - low));
  }
  if (node.op == "aten.bernoulli.p") return random.uniform(element) < node.number("p", 0.5) ? 1 : 0;
  if (node.op == "aten.exponential") return -std::log1p(-random.uniform(element)) / node.number("lambd", 1);
  if (node.op == "aten.uniform") {
    const double from = node.number("from", 0);
    return from + random.uniform(element) * (node.number("to", 1) - from);
  }
  const bool normal = node.op == "aten.normal_functional";
  if (!normal && !node.op.starts_with("aten.randn")) return random.uniform(element);
  // Box and Muller 1958.
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform(2 * element)));
  const double drawn = radius * std::cos(2 * std::numbers::pi * random.uniform(2 * element + 1));
  return normal ? node.number("mean", 0) + node.number("std", 1) * drawn : drawn;
}

class Factory final : public OpFamily {
 private:
  // Every dimension shards, but of a permutation: each rank makes its own part (arange from its own offset). The operand of new_ones and its
  // like gives only a dtype and, to the *_like ones, a shape.
  Result<Rule> do_rule(const OpCall& call) const override {
    std::string result, operand;
    const bool like = call.node.op.ends_with("_like") || call.node.op == "aten.zero" ||
                      call.node.op.starts_with("aten.bernoulli") || fills(call.node);
    for (std::size_t i = 0; i < call.results[0].shape.size(); ++i) result += (is_permutation(call.node) ? " !d" : " d") + std::to_string(i);
    if (!call.operands.empty()) {
      for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
        operand += (like ? " d" : " !w") + std::to_string(i);
      }
    }
    return parse_rule(operand + " -> " + result, call.operands, call.results);
  }

  // What is filled by a formula is computed where it is used; what is drawn is kept, so that each use sees the same numbers.
  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    if (!is_random(call.node) && !is_permutation(call.node)) cost.fusion = Fusion::pointwise;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    return std::vector<ValueId>(call.node.operands.size(), kNoId);  // a shape has no gradient, nor has a probability
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Node& node = call.node;
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    if (is_permutation(node)) {
      permute(RandomStream(node), result);
      return results;
    }
    if (is_identity(node)) {
      const std::int64_t columns = result.shape()[1];
      const ShardIndex row(node, "rows", result.shape()[0]), column(node, "columns", columns);
      for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, row.global(i / columns) == column.global(i % columns) ? 1 : 0);
      return results;
    }
    const ShardIndex positions(node, is_random(node) ? "elements" : "positions", result.elements());
    if (is_random(node)) {
      const RandomStream random(node);
      const bool given = node.op == "aten.bernoulli";  // each element its own probability
      for (std::int64_t i = 0; i < result.elements(); ++i) {
        const double drawn = draw(node, random, positions.global(i));
        result.set(i, !given ? drawn : drawn < operands[0]->get(i) ? 1 : 0);
      }
      return results;
    }
    double start = node.number("start", 0), step = node.number("step", 1);
    if (node.op == "aten.linspace") {
      const auto intervals = static_cast<double>(positions.global_size() - 1);
      step = intervals > 0 ? (node.number("end", 0) - start) / intervals : 0;
    }
    // What an empty tensor holds nobody says; here zeros.
    double fill = node.op.find("ones") != std::string::npos ? 1 : 0;
    if (node.op.find("full") != std::string::npos) fill = node.number("fill_value", 0);
    if (node.op == "aten.scalar_tensor") fill = node.number("s", 0);
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      result.set(i, counts(node) ? start + step * static_cast<double>(positions.global(i)) : fill);
    }
    return results;
  }

  // A rank counts from where it stands.
  Status do_localize(const LocalCall& call) const override {
    const Node& node = call.call.node;
    Attributes attributes = node.attributes;
    RankAttributes rank_attributes;
    const TensorType local = local_type(call.results[0], call.mesh);
    if (attributes.contains("size")) attributes["size"] = local.shape;
    if (attributes.contains("stride")) attributes["stride"] = strides_of(local.shape);
    if (is_identity(node)) {
      ShardIndex::describe(call.results[0], 0, 1, call.mesh, "rows", attributes, rank_attributes);
      ShardIndex::describe(call.results[0], 1, 2, call.mesh, "columns", attributes, rank_attributes);
      attributes["n"] = local.shape[0];
      if (attributes.contains("m")) attributes["m"] = local.shape[1];
    }
    if (counts(node)) ShardIndex::describe(call.results[0], 0, 1, call.mesh, "positions", attributes, rank_attributes);
    if (is_random(node)) {
      ShardIndex::describe(call.results[0], 0, local.shape.size(), call.mesh, "elements", attributes, rank_attributes);
    }
    call.emit(std::move(attributes), std::move(rank_attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "factory", "0.1.0", "Apache-2.0", "Tensors made from nothing", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Factory>), destroy_plugin<OpFamily>)

}  // namespace meshwright
