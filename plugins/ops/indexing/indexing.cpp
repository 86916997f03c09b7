// Picking elements by position: what is indexed stays whole, what indexes shards.

#include <algorithm>
#include <string>

#include "indexing.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.index.Tensor", "aten.gather", "aten.index_select", nullptr};

class Indexing final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    if (call.node.op == "aten.gather") return gather_rule(call);
    if (call.node.op == "aten.index_select") return select_rule(call);
    return index_rule(call);
  }

  static std::size_t dimension(const OpCall& call) {
    const std::int64_t at = call.node.integer("dim", 0);
    return static_cast<std::size_t>(at < 0 ? at + call.operands[0].rank() : at);
  }

  // Positions along `dim` come from a tensor of the result's shape; elsewhere a dimension shards if both are as long.
  static Result<Rule> gather_rule(const OpCall& call) {
    const std::size_t at = dimension(call);
    std::string from, index;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
      const std::string name = "d" + std::to_string(i), space = i > 0 ? " " : "";
      const bool same = call.operands[0].shape[i] == call.operands[1].shape[i];
      from += space + (i == at || !same ? "!w" + std::to_string(i) : name);
      index += space + (i != at && !same ? "!" + name : name);
    }
    return parse_rule(from + ", " + index + " -> " + index, call.operands, call.results);
  }

  static Result<Rule> select_rule(const OpCall& call) {
    const std::size_t at = dimension(call);
    std::string from, to;
    for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
      const std::string name = "d" + std::to_string(i), space = i > 0 ? " " : "";
      from += space + (i == at ? "!w" : name);
      to += space + (i == at ? "p" : name);
    }
    return parse_rule(from + ", p -> " + to, call.operands, call.results);
  }

  // x[i, :, j]: the indexed dimensions stay whole, the indices broadcast against each other, and their dimensions
  // stand where the first index is, or in front if the indexed dimensions are not neighbours.
  static Result<Rule> index_rule(const OpCall& call) {
    const TensorType& from = call.operands[0];
    std::vector<bool> indexed(from.shape.size(), false);
    std::int64_t broadcast_rank = 0;
    std::size_t first = from.shape.size(), last = 0;
    for (std::size_t i = 1; i < call.operands.size(); ++i) {
      if (call.operands[i].dtype == DType::boolean) return bad_input("a boolean index makes a shape that depends on data");
      const std::size_t at = indexed_dimension(call.node, i);
      indexed[at] = true;
      first = std::min(first, at);
      last = std::max(last, at);
      broadcast_rank = std::max(broadcast_rank, call.operands[i].rank());
    }
    const bool neighbours = last - first + 2 == call.operands.size();
    const std::size_t front = neighbours ? first : 0;
    std::string text, result;
    for (std::size_t i = 0; i < from.shape.size(); ++i) {
      text += (i > 0 ? " " : "") + (indexed[i] ? "!w" + std::to_string(i) : "d" + std::to_string(i));
    }
    for (std::size_t i = 1; i < call.operands.size(); ++i) {
      text += ",";
      const std::int64_t missing = broadcast_rank - call.operands[i].rank();
      for (std::int64_t j = 0; j < call.operands[i].rank(); ++j) {
        const bool one = call.operands[i].shape[static_cast<std::size_t>(j)] == 1;
        text += one ? " 1" : " i" + std::to_string(missing + j);
      }
    }
    const auto add_indices = [&] {
      for (std::int64_t j = 0; j < broadcast_rank; ++j) {
        const bool one = call.results[0].shape[front + static_cast<std::size_t>(j)] == 1;
        result += one ? " 1" : " i" + std::to_string(j);
      }
    };
    if (!neighbours) add_indices();
    for (std::size_t i = 0; i < from.shape.size(); ++i) {
      if (neighbours && i == first) add_indices();
      if (!indexed[i]) result += " d" + std::to_string(i);
    }
    return parse_rule(text + " ->" + result, call.operands, call.results);
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override {
    OpCost cost;
    cost.gathers = true;
    return cost;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return indexing_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "indexing", "0.1.0", "Apache-2.0", "Elements picked by tensors of positions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Indexing>), destroy_plugin<OpFamily>)

}  // namespace meshwright
