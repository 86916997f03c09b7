#include "meshwright/rule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace meshwright {

FactorId Rule::factor(std::string_view name) const {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i].name == name) return static_cast<FactorId>(i);
  }
  assert(false && "the rule has no factor of that name");
  return 0;
}

std::vector<FactorId> Rule::all_factors() const {
  std::vector<FactorId> all(factors.size());
  std::iota(all.begin(), all.end(), FactorId{0});
  return all;
}

namespace {

Status check_tensors(const Rule& rule, const std::vector<TensorRule>& tensors, const std::vector<TensorType>& types,
                     const std::string& side) {
  if (tensors.size() != types.size()) return internal_error("the rule has another number of " + side + "s than the call");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string where = side + " " + std::to_string(i) + " of rule '" + to_string(rule) + "'";
    if (tensors[i].dimensions.size() != types[i].shape.size()) {
      return internal_error(where + ": has another rank than " + to_string(types[i]));
    }
    for (std::size_t d = 0; d < types[i].shape.size(); ++d) {
      std::int64_t product = 1;
      for (const FactorId factor : tensors[i].dimensions[d]) {
        if (factor >= rule.factors.size()) return internal_error(where + ": names an unknown factor");
        product *= rule.factors[factor].size;
      }
      if (product != types[i].shape[d]) {
        return internal_error(where + ": dimension " + std::to_string(d) + " has " + std::to_string(product) +
                              " elements by the rule, but the tensor is " + to_string(types[i]));
      }
    }
  }
  return Done{};
}

}  // namespace

Status validate(const Rule& rule, const std::vector<TensorType>& operands, const std::vector<TensorType>& results) {
  if (Status status = check_tensors(rule, rule.operands, operands, "operand"); !status) return status;
  if (Status status = check_tensors(rule, rule.results, results, "result"); !status) return status;
  for (const auto& group : rule.linear) {
    for (const std::uint32_t operand : group) {
      if (operand >= operands.size()) return internal_error("the rule's linear mark names an unknown operand");
    }
  }
  for (const FactorId factor : rule.coupled) {
    if (factor >= rule.factors.size()) return internal_error("the rule couples ranks over an unknown factor");
  }
  for (const Exchange& exchange : rule.exchanges) {
    if (exchange.from >= rule.factors.size() || exchange.to >= rule.factors.size() || exchange.copies < 1) {
      return internal_error("an exchange names an unknown factor, or no copies");
    }
  }
  return Done{};
}

std::int64_t Exchange::capacity(std::int64_t rows, std::int64_t positions, std::int64_t devices) const {
  const std::int64_t most = rows * (distinct ? std::min(copies, positions) : copies);
  if (capacity_factor <= 0) return most;
  const double balanced = static_cast<double>(rows * copies) / static_cast<double>(devices);
  return std::clamp(static_cast<std::int64_t>(std::ceil(balanced * capacity_factor)), std::int64_t{1}, most);
}

Rule replicated_rule(const std::vector<TensorType>& operands, const std::vector<TensorType>& results) {
  Rule rule;
  const auto add = [&](const std::vector<TensorType>& types, std::vector<TensorRule>& tensors) {
    for (const TensorType& type : types) {
      TensorRule& tensor = tensors.emplace_back();
      for (const std::int64_t size : type.shape) {
        std::vector<FactorId>& dimension = tensor.dimensions.emplace_back();
        if (size == 1) continue;
        dimension.push_back(static_cast<FactorId>(rule.factors.size()));
        Factor factor;
        factor.name = "w" + std::to_string(rule.factors.size());
        factor.size = size;
        factor.whole = true;
        rule.factors.push_back(std::move(factor));
      }
    }
  };
  add(operands, rule.operands);
  add(results, rule.results);
  return rule;
}

}  // namespace meshwright
