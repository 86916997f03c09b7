// Normalizations: the dimensions whose statistics are taken stay whole, the others shard.
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.layer_norm", "aten.rms_norm", "aten.softmax.int", "aten._softmax",
                                "aten.log_softmax.int", "aten._log_softmax", nullptr};

// FLOPs for each element: a sum, a difference, a square and its sum, a scale, and the affine part.
constexpr double kNormFlops = 8;
constexpr double kSoftmaxFlops = 5;  // maximum, difference, exponential, sum, division

bool is_softmax(const OpCall& call) { return call.node.op.find("softmax") != std::string::npos; }

class Norm final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType& input = call.operands[0];
    std::int64_t first_whole = 0, last_whole = 0;
    if (is_softmax(call)) {
      const std::int64_t dim = call.node.integer("dim", -1);
      first_whole = last_whole = dim < 0 ? dim + input.rank() : dim;
    } else {
      first_whole = input.rank() - static_cast<std::int64_t>(call.node.integers("normalized_shape").size());
      last_whole = input.rank() - 1;
    }
    std::string dimensions, normalized;
    for (std::int64_t i = 0; i < input.rank(); ++i) {
      const bool whole = i >= first_whole && i <= last_whole;
      const std::string here = (whole ? "!d" : "d") + std::to_string(i);
      dimensions += (i > 0 ? " " : "") + here;
      if (whole) normalized += (normalized.empty() ? "" : " ") + here;
    }
    std::string operands = dimensions;
    for (std::size_t i = 1; i < call.operands.size(); ++i) operands += ", " + normalized;  // weight, bias
    return parse_rule(operands + " -> " + dimensions, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = is_softmax(call) ? kSoftmaxFlops : kNormFlops;
    for (FactorId factor = 0; factor < rule.factors.size(); ++factor) term.factors.push_back(factor);
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "norm", "0.1.0", "Apache-2.0", "Normalizations over trailing dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Norm>), destroy_plugin<OpFamily>)

}  // namespace meshwright
