// Diagonals: the two dimensions that they run through stay whole, the others shard.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.diagonal", "aten.diagonal_backward", nullptr};

bool is_backward(const Node& node) { return node.op == "aten.diagonal_backward"; }

// Rows and columns of a tensor of this rank, and the first of the diagonal's elements.
struct Place {
  std::size_t row = 0, column = 1;
  std::int64_t first_row = 0, first_column = 0;

  Place(const Node& node, std::int64_t rank) {
    const auto dimension = [&](const char* name, std::int64_t otherwise) {
      const std::int64_t at = node.integer(name, otherwise);
      return static_cast<std::size_t>(at < 0 ? at + rank : at);
    };
    row = dimension("dim1", 0);
    column = dimension("dim2", 1);
    const std::int64_t offset = node.integer("offset", 0);
    first_row = std::max<std::int64_t>(-offset, 0);
    first_column = std::max<std::int64_t>(offset, 0);
  }
};

class Diagonal final : public OpFamily {
 private:
  // The diagonal's dimension is the last of the result.
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType &wide = is_backward(call.node) ? call.results[0] : call.operands[0],
                     &narrow = is_backward(call.node) ? call.operands[0] : call.results[0];
    const Place place(call.node, wide.rank());
    std::string from, to;
    for (std::size_t i = 0; i < wide.shape.size(); ++i) {
      const std::string number = std::to_string(i);
      const bool taken = i == place.row || i == place.column;
      from += taken ? (wide.shape[i] == 1 ? " 1" : " !w" + number) : " d" + number;
      if (!taken) to += " d" + number;
    }
    to += narrow.shape.back() == 1 ? " 1" : " !v";
    Result<Rule> rule = parse_rule(is_backward(call.node) ? to + " ->" + from : from + " ->" + to, call.operands, call.results);
    if (rule && is_floating(wide.dtype)) rule->linear = {{0}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = !is_backward(call.node);
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
    const TensorType type = call.type(call.node.operands[0].value);
    Attributes attributes = call.node.attributes;
    attributes["input_sizes"] = type.shape;
    return std::vector<ValueId>{call.build.emit("aten.diagonal_backward", {{"grad_output", call.result_gradients[0]}}, attributes, type)};
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const bool backward = is_backward(call.node);
    const TensorType &wide = backward ? call.results[0] : call.operands[0], &narrow = backward ? call.operands[0] : call.results[0];
    const Place place(call.node, wide.rank());
    const std::vector<std::int64_t> strides = strides_of(wide.shape), steps = strides_of(narrow.shape);
    const std::int64_t length = narrow.shape.back();
    if (place.first_row + length > wide.shape[place.row] || place.first_column + length > wide.shape[place.column]) {
      return bad_input("the diagonal is longer than its matrix");
    }
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < narrow.elements(); ++i) {
      std::int64_t rest = i, at = place.first_row * strides[place.row] + place.first_column * strides[place.column];
      std::size_t d = 0;
      for (std::size_t w = 0; w < strides.size(); ++w) {
        if (w == place.row || w == place.column) continue;
        at += rest / steps[d] * strides[w];
        rest %= steps[d++];
      }
      at += rest * (strides[place.row] + strides[place.column]);
      result.set(backward ? at : i, operands[0]->get(backward ? i : at));
    }
    return results;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "diagonal", "0.1.0", "Apache-2.0", "Diagonals", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Diagonal>), destroy_plugin<OpFamily>)

}  // namespace meshwright
