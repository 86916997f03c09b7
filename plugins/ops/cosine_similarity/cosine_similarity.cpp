// Cosines between vectors along one dimension, which stays whole; the operands broadcast.
#include <algorithm>
#include <cmath>

#include "broadcast.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "numbers.h"
#include "term.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cosine_similarity", nullptr};

std::size_t dimension(const Node& node, std::int64_t rank) {
  const std::int64_t at = node.integer("dim", 1);
  return static_cast<std::size_t>(at < 0 ? at + rank : at);
}

class CosineSimilarity final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType joint = joint_type(call.operands[0], call.operands[1]);
    const std::size_t at = dimension(call.node, joint.rank());
    const auto text = [&](const TensorType& type) {
      std::string words;
      const std::size_t missing = joint.shape.size() - type.shape.size();
      for (std::size_t i = 0; i < type.shape.size(); ++i) {
        words += type.shape[i] == 1 ? " 1" : (missing + i == at ? " !d" : " d") + std::to_string(missing + i);
      }
      return words;
    };
    std::string result;
    for (std::size_t i = 0; i < joint.shape.size(); ++i) {
      if (i != at) result += joint.shape[i] == 1 ? " 1" : " d" + std::to_string(i);
    }
    return parse_rule(text(call.operands[0]) + "," + text(call.operands[1]) + " ->" + result, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({6, rule.all_factors()});
    cost.fusion = Fusion::reduction;
    return cost;
  }

  // With u = x1/|x1|, v = x2/|x2| and c their product: of x1 g·(v − c·u)/|x1|. A norm that is smaller than eps counts as eps.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const Term x1(call.build, call.node.operands[0].value), x2(call.build, call.node.operands[1].value);
    const TensorType joint = joint_type(x1.type(), x2.type());
    const auto at = static_cast<std::int64_t>(dimension(call.node, joint.rank()));
    std::vector<std::int64_t> kept = joint.shape;
    kept[static_cast<std::size_t>(at)] = 1;
    const Term gradient = view({call.build, call.result_gradients[0]}, kept), cosine = view({call.build, call.node.results[0]}, kept);
    const auto norm = [&](Term x) {
      return sum(expand(x * x, joint.shape), {at}).then("aten.sqrt").then("aten.clamp_min", {{"min", call.node.number("eps", 1e-8)}});
    };
    const Term n1 = norm(x1), n2 = norm(x2);
    const Term u = x1 / n1, v = x2 / n2;
    std::vector<ValueId> gradients(2, kNoId);
    if (call.wanted[0]) gradients[0] = sum_to((v - u * cosine) * (gradient / n1), x1.type()).id();
    if (call.wanted[1]) gradients[1] = sum_to((u - v * cosine) * (gradient / n2), x2.type()).id();
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const TensorType joint = joint_type(call.operands[0], call.operands[1]);
    const std::size_t at = dimension(call.node, joint.rank());
    std::int64_t inner = 1;
    for (std::size_t d = at + 1; d < joint.shape.size(); ++d) inner *= joint.shape[d];
    const std::int64_t block = inner * joint.shape[at];
    const BroadcastIndex first(call.operands[0].shape, joint.shape), second(call.operands[1].shape, joint.shape);
    Numbers product = zeros(call.results[0]), a = product, b = product;
    for (std::int64_t i = 0; i < joint.elements(); ++i) {
      const std::size_t line = to_size(i / block * inner + i % inner);
      const double x = operands[0]->get(first(i)), y = operands[1]->get(second(i));
      product[line] += x * y;
      a[line] += x * x;
      b[line] += y * y;
    }
    const double least = call.node.number("eps", 1e-8);
    for (std::size_t i = 0; i < product.size(); ++i) product[i] /= std::max(std::sqrt(a[i]), least) * std::max(std::sqrt(b[i]), least);
    std::vector<Tensor> results;
    results.push_back(written(call.result(0), product));
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "cosine_similarity", "0.1.0", "Apache-2.0", "Cosines between vectors", kOps, nullptr, 0,
                  (create_plugin<OpFamily, CosineSimilarity>), destroy_plugin<OpFamily>)

}  // namespace meshwright
