// A weight as a length for each position of one dimension, times a direction (Salimans and Kingma 2016): g·v / |v|. That dimension
// shards, the others stay whole.
#include <algorithm>
#include <cmath>

#include "broadcast.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "numbers.h"
#include "term.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten._weight_norm", nullptr};

std::size_t dimension(const Node& node, std::int64_t rank) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(node.integer("dim", 0), 0, rank - 1));
}

// To PyTorch -1 is no dimension at all: one length for the whole weight.
Status check_lengths(const OpCall& call) {
  const std::int64_t rank = call.operands[0].rank();
  if (call.node.integer("dim", 0) < 0 || call.node.integer("dim", 0) >= rank) return bad_input("one length for a whole weight is not supported");
  if (call.operands[1].rank() != rank) return bad_input("a length that has another rank than its direction is not supported");
  return Done{};
}

class WeightNorm final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& v = call.operands[0];
    const std::size_t at = dimension(call.node, v.rank());
    if (Status status = check_lengths(call); !status) return status.error();
    std::string direction, length;
    for (std::size_t i = 0; i < v.shape.size(); ++i) {
      const std::string name = v.shape[i] == 1 ? " 1" : (i == at ? " d" : " !d") + std::to_string(i);
      direction += name;
      length += i == at ? name : " 1";
    }
    Result<Rule> rule = parse_rule(direction + "," + length + " ->" + direction, call.operands, call.results);
    if (rule) rule->linear = {{1}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({4, rule.all_factors()});
    cost.fusion = Fusion::reduction;
    return cost;
  }

  // With n = |v| and s = Σ grad·v: of g s/n, of v g/n·(grad − v·s/n²).
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const Term gradient(call.build, call.result_gradients[0]), v(call.build, call.node.operands[0].value),
        g(call.build, call.node.operands[1].value);
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < v.type().shape.size(); ++i) {
      if (i != dimension(call.node, v.type().rank())) dims.push_back(static_cast<std::int64_t>(i));
    }
    const Term square = sum(v * v, dims);
    const Term norm = square.then("aten.sqrt"), product = sum(gradient * v, dims);
    std::vector<ValueId> gradients(2, kNoId);
    if (call.wanted[1]) gradients[1] = (product / norm).id();
    if (call.wanted[0]) gradients[0] = ((gradient - v * (product / square)) * (g / norm)).id();
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Tensor &v = *operands[0], &g = *operands[1];
    if (Status status = check_lengths(call); !status) return status.error();
    if (g.elements() != v.shape()[dimension(call.node, v.type().rank())]) return bad_input("the length has another size than its dimension");
    const BroadcastIndex index(g.shape(), v.shape());
    Numbers squares = zeros(g.type());
    for (std::int64_t i = 0; i < v.elements(); ++i) squares[to_size(index(i))] += v.get(i) * v.get(i);
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < v.elements(); ++i) {
      result.set(i, v.get(i) * g.get(index(i)) / std::sqrt(squares[to_size(index(i))]));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "weight_norm", "0.1.0", "Apache-2.0", "Weights as length and direction", kOps, nullptr, 0,
                  (create_plugin<OpFamily, WeightNorm>), destroy_plugin<OpFamily>)

}  // namespace meshwright
