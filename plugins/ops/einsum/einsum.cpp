// Sums of products in Einstein's notation: the equation is the rule.
#include <algorithm>
#include <map>

#include "equation.h"
#include "meshwright/plugin.h"
#include "numbers.h"
#include "term.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.einsum", "aten.outer", "aten.dot", "aten.mv", nullptr};

std::vector<std::int64_t> ranks_of(const std::vector<TensorType>& types) {
  std::vector<std::int64_t> ranks;
  for (const TensorType& type : types) ranks.push_back(type.rank());
  return ranks;
}

// By name; a size of 1 is broadcast.
std::map<std::string, std::int64_t> sizes_of(const Equation& equation, const std::vector<TensorType>& operands) {
  std::map<std::string, std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t d = 0; d < operands[i].shape.size(); ++d) {
      std::int64_t& size = sizes.try_emplace(equation.operands[i][d], 1).first->second;
      size = std::max(size, operands[i].shape[d]);
    }
  }
  return sizes;
}

class Einsum final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const Result<Equation> equation = equation_of(call.node, ranks_of(call.operands));
    if (!equation) return equation.error();
    std::string text;
    const auto add = [&](const std::vector<std::string>& names, const TensorType& type) {
      for (std::size_t d = 0; d < type.shape.size(); ++d) {
        const bool letter = names[d][0] < '0' || names[d][0] > '9';  // a number would be a factor's size
        text += type.shape[d] == 1 ? " 1" : " " + (letter ? names[d] : "e" + names[d] + "_");
      }
    };
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      text += i > 0 ? "," : "";
      add(equation->operands[i], call.operands[i]);
    }
    if (call.results[0].shape.size() != equation->result.size()) return bad_input("the equation does not go with the rank of the result");
    text += " ->";
    add(equation->result, call.results[0]);
    Result<Rule> rule = parse_rule(text, call.operands, call.results);
    for (std::uint32_t i = 0; rule && i < call.operands.size(); ++i) rule->linear.push_back({i});
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.matrix = call.operands.size() > 1;
    cost.forward.push_back({static_cast<double>(call.operands.size()), rule.all_factors()});
    return cost;
  }

  // Of an operand: the sum of products of the gradient and the other operands, over what it does not have; it is the same
  // along what it alone has.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<TensorType> types;
    for (const Operand& operand : call.node.operands) types.push_back(call.type(operand.value));
    const Result<Equation> equation = equation_of(call.node, ranks_of(types));
    if (!equation) return equation.error();
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < types.size(); ++i) gradients.push_back(call.wanted[i] ? of_operand(call, *equation, types, i) : kNoId);
    return gradients;
  }

  static ValueId of_operand(const GradientCall& call, const Equation& equation, const std::vector<TensorType>& types, std::size_t of) {
    Equation back;
    std::vector<Operand> operands = {{"tensors.0", call.result_gradients[0]}};
    back.operands.push_back(equation.result);
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (i == of) continue;
      operands.push_back({"tensors." + std::to_string(operands.size()), call.node.operands[i].value});
      back.operands.push_back(equation.operands[i]);
    }
    TensorType made{types[of].dtype, {}};
    std::vector<std::int64_t> spread;
    for (std::size_t d = 0; d < types[of].shape.size(); ++d) {
      const std::string& name = equation.operands[of][d];
      const bool known = std::ranges::any_of(back.operands, [&](const auto& names) { return std::ranges::find(names, name) != names.end(); });
      spread.push_back(known ? types[of].shape[d] : 1);
      if (!known || types[of].shape[d] == 1) continue;
      back.result.push_back(name);
      made.shape.push_back(types[of].shape[d]);
    }
    const Term sums(call.build, call.build.emit("aten.einsum", operands, {{"equation", to_text(back)}}, made));
    return expand(view(sums, spread), types[of].shape).id();
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Result<Equation> equation = equation_of(call.node, ranks_of(call.operands));
    if (!equation) return equation.error();
    // One loop over the result's names, then the others; each operand steps along.
    const std::map<std::string, std::int64_t> sizes = sizes_of(*equation, call.operands);
    std::vector<std::string> names = equation->result;
    for (const auto& [name, size] : sizes) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    const std::size_t outer = equation->result.size();
    std::vector<std::int64_t> extents;
    for (std::size_t n = 0; n < names.size(); ++n) {
      const auto known = sizes.find(names[n]);
      extents.push_back(known == sizes.end() ? 1 : known->second);
      if (n < outer && call.results[0].shape[n] != extents[n]) return bad_input("the result has another shape than the equation gives");
    }
    std::vector<std::vector<std::int64_t>> steps(operands.size(), std::vector<std::int64_t>(names.size(), 0));
    std::vector<Numbers> numbers;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      numbers.push_back(numbers_of(*operands[i]));
      const std::vector<std::int64_t> strides = strides_of(operands[i]->shape());
      for (std::size_t d = 0; d < strides.size(); ++d) {
        const std::int64_t size = operands[i]->shape()[d];
        const auto n = static_cast<std::size_t>(std::ranges::find(names, equation->operands[i][d]) - names.begin());
        if (size != 1 && size != extents[n]) return bad_input("'" + names[n] + "' has two sizes");
        if (size != 1) steps[i][n] = strides[d];
      }
    }
    const std::vector<std::int64_t> strides = strides_of(extents);
    const std::int64_t points = names.empty() ? 1 : strides[0] * extents[0];
    const std::int64_t sum_length = points / std::max<std::int64_t>(call.results[0].elements(), 1);
    Numbers sums = zeros(call.results[0]);
    for (std::int64_t point = 0; point < points; ++point) {
      double product = 1;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        std::int64_t rest = point, at = 0;
        for (std::size_t n = 0; n < names.size(); ++n) {
          at += rest / strides[n] * steps[i][n];
          rest %= strides[n];
        }
        product *= numbers[i][to_size(at)];
      }
      sums[to_size(point / sum_length)] += product;
    }
    std::vector<Tensor> results;
    results.push_back(written(call.result(0), sums));
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "einsum", "0.1.0", "Apache-2.0", "Sums of products in Einstein's notation", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Einsum>), destroy_plugin<OpFamily>)

}  // namespace meshwright
