// Distances between all rows of two tensors, b* m d and b* n d: everything shards but the coordinates.
#include <algorithm>
#include <cmath>

#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "numbers.h"

namespace meshwright {
namespace {

// aten._cdist_backward(grad_output, x1, x2, cdist) -> the gradient of x1.
constexpr const char* kBackward = "aten._cdist_backward";
// aten._pdist_backward(grad_output, self, pdist) -> the gradient of self, of whose rows all pairs have a distance.
constexpr const char* kPairsBackward = "aten._pdist_backward";
constexpr const char* kOps[] = {"aten._cdist_forward", "aten.cdist", kBackward, "aten._pdist_forward", kPairsBackward, nullptr};

bool is_pairs(const Node& node) { return node.op.starts_with("aten._pdist"); }

double distance(std::span<const double> a, std::span<const double> b, double p) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double size = std::abs(a[i] - b[i]);
    if (std::isinf(p)) sum = std::max(sum, size);
    else sum += p == 0 ? (size != 0 ? 1 : 0) : std::pow(size, p);
  }
  return std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
}

// Of the distance by one coordinate of the first row; zero where there is no distance.
double slope(double difference, double distance, double p) {
  const double sign = (difference > 0) - (difference < 0);
  if (p == 0 || distance == 0) return 0;
  if (p == 1) return sign;
  if (std::isinf(p)) return std::abs(difference) == distance ? sign : 0;
  return sign * std::pow(std::abs(difference) / distance, p - 1);
}

// Of the pairs i < j of rows n d, in their order: forward, or what each adds to the gradient of both.
Result<std::vector<Tensor>> pairs_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool backward = call.node.op == kPairsBackward;
  const Tensor& self = *operands[backward ? 1 : 0];
  const double p = call.node.number("p", 2);
  const std::size_t n = to_size(self.shape()[0]), d = to_size(self.shape()[1]);
  const Numbers rows = numbers_of(self);
  Numbers result = zeros(call.results[0]);
  if ((backward ? call.operands[0] : call.results[0]).elements() != static_cast<std::int64_t>(n * (n - 1) / 2)) {
    return bad_input("there is another number of distances than of pairs");
  }
  std::size_t pair = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j, ++pair) {
      if (!backward) {
        result[pair] = distance({&rows[i * d], d}, {&rows[j * d], d}, p);
        continue;
      }
      const auto at = static_cast<std::int64_t>(pair);
      for (std::size_t k = 0; k < d; ++k) {
        const double moved = operands[0]->get(at) * slope(rows[i * d + k] - rows[j * d + k], operands[2]->get(at), p);
        result[i * d + k] += moved;
        result[j * d + k] -= moved;
      }
    }
  }
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), result));
  return results;
}

Status check_batches(const TensorType& x1, const TensorType& x2) {
  const bool alike = x1.rank() == x2.rank() && x1.rank() > 1 && std::equal(x1.shape.begin(), x1.shape.end() - 2, x2.shape.begin());
  if (!alike) return bad_input("batches that are broadcast are not supported");
  return Done{};
}

class Cdist final : public OpFamily {
 private:
  // Pairs of rows have no order that a cut of the rows keeps.
  static Rule pairs_rule(const OpCall& call) {
    Rule rule = replicated_rule(call.operands, call.results);
    if (call.node.op == kPairsBackward) rule.linear = {{0}};
    return rule;
  }

  Result<Rule> do_rule(const OpCall& call) const override {
    if (is_pairs(call.node)) return pairs_rule(call);
    const bool backward = call.node.op == kBackward;
    const TensorType &x1 = *call.operand("x1"), &x2 = *call.operand("x2");
    if (Status status = check_batches(x1, x2); !status) return status.error();
    const std::string d = x1.shape.back() == 1 ? "1" : "!d", first = "b* m " + d, second = "b* n " + d, made = "b* m n";
    Result<Rule> rule = parse_rule(backward ? made + ", " + first + ", " + second + ", " + made + " -> " + first
                                            : first + ", " + second + " -> " + made, call.operands, call.results);
    if (rule && backward) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    cost.forward.push_back({3, rule.all_factors()});
    return cost;
  }

  // Of the second rows it is that of the first with both in the other's place.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op.ends_with("_backward")) return bad_input("its op family states no gradient");
    if (is_pairs(call.node)) {
      const ValueId self = call.node.operands[0].value;
      if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
      return std::vector<ValueId>{
          call.build.emit(kPairsBackward, {{"grad_output", call.result_gradients[0]}, {"self", self}, {"pdist", call.node.results[0]}},
                          {{"p", call.node.number("p", 2)}}, call.type(self))};
    }
    const ValueId x1 = call.operand("x1"), x2 = call.operand("x2");
    const Attributes attributes = {{"p", call.node.number("p", 2)}};
    const auto emit = [&](ValueId gradient, ValueId a, ValueId b, ValueId distances) {
      return call.build.emit(kBackward, {{"grad_output", gradient}, {"x1", a}, {"x2", b}, {"cdist", distances}}, attributes, call.type(a));
    };
    const auto turned = [&](ValueId id) {
      TensorType type = call.type(id);
      std::swap(type.shape.back(), type.shape[type.shape.size() - 2]);
      return call.build.emit("aten.transpose.int", {{"self", id}}, {{"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}}, type);
    };
    std::vector<ValueId> gradients(2, kNoId);
    const ValueId gradient = call.result_gradients[0], result = call.node.results[0];
    if (call.wanted[0]) gradients[0] = emit(gradient, x1, x2, result);
    if (call.wanted[1]) gradients[1] = emit(turned(gradient), x2, x1, turned(result));
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (is_pairs(call.node)) return pairs_evaluate(call, operands);
    const bool backward = call.node.op == kBackward;
    const Tensor &first = *operands[backward ? 1 : 0], &second = *operands[backward ? 2 : 1];
    if (Status status = check_batches(first.type(), second.type()); !status) return status.error();
    const double p = call.node.number("p", 2);
    const Numbers a = numbers_of(first), b = numbers_of(second);
    const std::size_t d = to_size(first.shape().back()), m = to_size(first.shape()[first.shape().size() - 2]),
                      n = to_size(second.shape()[second.shape().size() - 2]), pairs = d == 0 ? 0 : a.size() / d * n;
    Numbers result = zeros(call.results[0]);
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t batch = i / (m * n), from = i / n * d, to = (batch * n + i % n) * d;
      if (!backward) {
        result[i] = distance({&a[from], d}, {&b[to], d}, p);
        continue;
      }
      const auto at = static_cast<std::int64_t>(i);
      for (std::size_t k = 0; k < d; ++k) {
        result[from + k] += operands[0]->get(at) * slope(a[from + k] - b[to + k], operands[3]->get(at), p);
      }
    }
    std::vector<Tensor> results;
    results.push_back(written(call.result(0), result));
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "cdist", "0.1.0", "Apache-2.0", "Distances between rows", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Cdist>), destroy_plugin<OpFamily>)

}  // namespace meshwright
