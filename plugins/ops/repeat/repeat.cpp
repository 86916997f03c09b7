// Repetition along dimensions: of a tensor as a whole, or of each element. A dimension of the result is a product of the
// repetitions and what is repeated, and both shard.
#include "meshwright/local_call.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "term.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.repeat", "aten.tile", "aten.repeat_interleave.self_int", nullptr};

// Whether each element is repeated: then the repetitions are the minor factor.
bool interleaves(const Node& node) { return node.op == "aten.repeat_interleave.self_int"; }

// Without a dimension, elements are repeated in a row: a vector's alone are those of a dimension.
bool is_flattened(const OpCall& call) { return interleaves(call.node) && call.operands[0].rank() != call.results[0].rank(); }

class Repeat final : public OpFamily {
 private:
  // By dimension of the result: how often it repeats what the operand has there, and how long that is.
  static std::vector<std::pair<std::int64_t, std::int64_t>> repetitions(const TensorType& operand, const TensorType& result) {
    std::vector<std::pair<std::int64_t, std::int64_t>> made;
    const std::size_t missing = result.shape.size() - operand.shape.size();
    for (std::size_t i = 0; i < result.shape.size(); ++i) {
      const std::int64_t size = i < missing ? 1 : operand.shape[i - missing];
      made.emplace_back(result.shape[i] / size, size);
    }
    return made;
  }

  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType &operand = call.operands[0], &result = call.results[0];
    if (operand.elements() == 0 || result.elements() == 0) return bad_input("an empty tensor is not repeated");
    if (is_flattened(call)) return bad_input("a repetition of a flattened tensor is not supported");
    Rule rule;
    rule.operands.resize(1);
    rule.results.resize(1);
    rule.linear = {{0}};
    const auto add = [&](const std::string& name, std::int64_t size) {
      if (size == 1) return std::vector<FactorId>{};
      Factor factor;
      factor.name = name;
      factor.size = size;
      rule.factors.push_back(std::move(factor));
      return std::vector{static_cast<FactorId>(rule.factors.size() - 1)};
    };
    const std::size_t missing = result.shape.size() - operand.shape.size();
    const auto sizes = repetitions(operand, result);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<FactorId> times = add("t" + std::to_string(i), sizes[i].first);
      std::vector<FactorId> here = add("d" + std::to_string(i), sizes[i].second);
      if (i >= missing) rule.operands[0].dimensions.push_back(here);
      if (interleaves(call.node)) std::swap(times, here);
      times.insert(times.end(), here.begin(), here.end());
      rule.results[0].dimensions.push_back(std::move(times));
    }
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  // The sum over the repetitions.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType type = call.type(call.node.operands[0].value);
    const Term gradient(call.build, call.result_gradients[0]);
    const bool minor = interleaves(call.node);
    std::vector<std::int64_t> shape, dims;
    for (const auto& [times, size] : repetitions(type, gradient.type())) {
      dims.push_back(static_cast<std::int64_t>(shape.size()) + (minor ? 1 : 0));
      shape.push_back(minor ? size : times);
      shape.push_back(minor ? times : size);
    }
    return std::vector<ValueId>{view(sum(view(gradient, shape), dims), type.shape).id()};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (is_flattened(call)) return bad_input("a repetition of a flattened tensor is not supported");
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    const auto sizes = repetitions(call.operands[0], call.results[0]);
    const std::vector<std::int64_t> strides = strides_of(result.shape());
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      std::int64_t rest = i, source = 0;
      for (std::size_t d = 0; d < sizes.size(); ++d) {
        const std::int64_t position = rest / strides[d];
        rest %= strides[d];
        source = source * sizes[d].second + (interleaves(call.node) ? position / sizes[d].first : position % sizes[d].second);
      }
      result.set(i, operands[0]->get(source));
    }
    return results;
  }

  // How often, on one rank's shapes.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    const auto sizes = repetitions(local_type(call.operands[0], call.mesh), local_type(call.results[0], call.mesh));
    if (interleaves(call.call.node)) {
      std::int64_t product = 1;
      for (const auto& size : sizes) product *= size.first;  // along one dimension alone
      attributes["repeats"] = product;
      attributes.erase("output_size");
    } else {
      std::vector<std::int64_t> times;
      for (const auto& size : sizes) times.push_back(size.first);
      attributes[call.call.node.op == "aten.tile" ? "dims" : "repeats"] = times;
    }
    call.emit(std::move(attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "repeat", "0.1.0", "Apache-2.0", "Repetition along dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Repeat>), destroy_plugin<OpFamily>)

}  // namespace meshwright
