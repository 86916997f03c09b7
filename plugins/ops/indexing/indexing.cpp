// Picking elements by position, and adding at positions: where the table is indexed it stays whole, what indexes
// shards.
#include "indexing.h"

#include <algorithm>
#include <string>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {

Indices indices_of(const OpCall& call) {
  Indices indices;
  indices.operand.assign(call.operands[0].shape.size(), 0);
  const std::size_t count = position_operands(call.node);
  std::size_t first = indices.operand.size(), last = 0;
  for (std::size_t i = 1; i <= count; ++i) {
    // "indices.2" indexes dimension 2
    const std::size_t at = std::stoul(call.node.operands[i].name.substr(sizeof("indices.") - 1));
    indices.operand[at] = i;
    first = std::min(first, at);
    last = std::max(last, at);
    const std::vector<std::int64_t>& shape = call.operands[i].shape;
    if (shape.size() > indices.shape.size())
      indices.shape.insert(indices.shape.begin(), shape.size() - indices.shape.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& size = indices.shape[indices.shape.size() - shape.size() + d];
      size = std::max(size, shape[d]);
    }
  }
  indices.front = last - first + 1 == count ? first : 0;
  return indices;
}

std::vector<std::int64_t> picked_shape(const OpCall& call) {
  if (!adds(call.node)) return call.results[0].shape;
  if (!is_index(call.node)) return call.operands.back().shape;
  const Indices indices = indices_of(call);
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < indices.operand.size(); ++d) {
    if (indices.operand[d] == 0) shape.push_back(call.operands[0].shape[d]);
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(indices.front), indices.shape.begin(), indices.shape.end());
  return shape;
}

static Status check_values(const OpCall& call) {
  const std::vector<std::int64_t> shape = picked_shape(call), &values = call.operands.back().shape;
  bool fits = values.size() <= shape.size();
  for (std::size_t i = 0; fits && i < values.size(); ++i) {
    fits = values[i] == 1 || values[i] == shape[shape.size() - values.size() + i];
  }
  if (fits) return Done{};
  return bad_input("index_put is supported where the values broadcast to what is indexed");
}

Status check_indexing(const OpCall& call) {
  for (std::size_t i = 1; i <= position_operands(call.node); ++i) {
    if (call.operands[i].dtype == DType::boolean)
      return bad_input("a boolean index makes a shape that depends on data");
  }
  if (call.node.op == "aten.index_put") return check_values(call);
  if (call.node.op == "aten.scatter_add" && call.operands[1].shape != picked_shape(call)) {
    return bad_input("scatter_add is supported where index and src have one shape");
  }
  return Done{};
}

namespace {

constexpr const char* kOps[] = {
    "aten.index.Tensor", "aten.gather", "aten.index_select", "aten.index_put", "aten.scatter_add",
    "aten.index_add",    nullptr};

// The dimensions of the table, of the positions ("a, b": one for each operand) and of what is picked from it.
struct Dimensions {
  std::string table, positions, picked;
};

std::size_t dimension(const OpCall& call) {
  const std::int64_t at = call.node.integer("dim", 0);
  return static_cast<std::size_t>(at < 0 ? at + call.operands[0].rank() : at);
}

// Positions along `dim` come from a tensor of the shape of what is picked; elsewhere a dimension shards if both are as
// long.
Dimensions gather_dimensions(const OpCall& call) {
  const std::size_t at = dimension(call);
  Dimensions text;
  for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
    const std::string name = "d" + std::to_string(i), space = i > 0 ? " " : "";
    const bool same = call.operands[0].shape[i] == call.operands[1].shape[i];
    text.table += space + (i == at || !same ? "!w" + std::to_string(i) : name);
    text.picked += space + (i != at && !same ? "!" + name : name);
  }
  text.positions = text.picked;
  return text;
}

Dimensions select_dimensions(const OpCall& call) {
  const std::size_t at = dimension(call);
  Dimensions text{"", "p", ""};
  for (std::size_t i = 0; i < call.operands[0].shape.size(); ++i) {
    const std::string name = "d" + std::to_string(i), space = i > 0 ? " " : "";
    text.table += space + (i == at ? "!w" : name);
    text.picked += space + (i == at ? "p" : name);
  }
  return text;
}

// The words of `text` that stand for the last dimensions, of these sizes; 1 where one is broadcast.
std::string broadcast_words(const std::string& text, std::size_t rank, const std::vector<std::int64_t>& sizes) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t word = 0, begin = 0; word < rank; ++word, begin = at) {
    begin = text.find_first_not_of(' ', begin);
    at = std::min(text.find(' ', begin), text.size());
    if (word + sizes.size() < rank) continue;
    made += sizes[word + sizes.size() - rank] == 1 ? " 1" : " " + text.substr(begin, at - begin);
  }
  return made;
}

// The indexed dimensions stay whole; of what is written over, the last that is written counts, so positions do too.
Dimensions index_dimensions(const OpCall& call) {
  const Indices indices = indices_of(call);
  const std::string mark = overwrites(call.node) ? " !i" : " i";
  const auto index_text = [&](std::size_t i, std::int64_t size) { return size == 1 ? std::string(" 1") : mark + std::to_string(i); };
  Dimensions text;
  for (std::size_t i = 1; i <= position_operands(call.node); ++i) {
    text.positions += i > 1 ? "," : "";
    const std::vector<std::int64_t>& shape = call.operands[i].shape;
    const std::size_t missing = indices.shape.size() - shape.size();
    for (std::size_t j = 0; j < shape.size(); ++j) text.positions += index_text(missing + j, shape[j]);
  }
  std::size_t next = 0;  // dimension of what is picked
  const auto add_indices = [&] {
    if (next++ != indices.front) return;
    for (std::size_t j = 0; j < indices.shape.size(); ++j) text.picked += index_text(j, indices.shape[j]);
  };
  for (std::size_t d = 0; d < indices.operand.size(); ++d) {
    const bool indexed = indices.operand[d] > 0;
    text.table += (d > 0 ? " " : "") + (indexed ? "!w" + std::to_string(d) : "d" + std::to_string(d));
    if (indexed) continue;
    add_indices();
    text.picked += " d" + std::to_string(d);
  }
  add_indices();
  if (adds(call.node)) {
    const std::vector<std::int64_t> picked = picked_shape(call);
    text.picked = broadcast_words(text.picked, picked.size(), call.operands.back().shape);
  }
  return text;
}

class Indexing final : public OpFamily {
 private:
  // What adds is a product with the transposed one-hot matrix: positions are a reduction, and the table is an addend.
  Result<Rule> do_rule(const OpCall& call) const override {
    if (puts_under_mask(call)) return masked_rule(call);
    if (Status status = check_indexing(call); !status) return status.error();
    const Node& node = call.node;
    const Dimensions text = is_index(node)    ? index_dimensions(call)
                            : is_gather(node) ? gather_dimensions(call)
                                              : select_dimensions(call);
    const std::string front = text.table + ", " + text.positions;
    Result<Rule> rule =
        parse_rule(adds(node) ? (overwrites(node) ? "" : "+") + front + ", " + text.picked + " -> " + text.table : front + " -> " + text.picked,
                   call.operands, call.results);
    if (!rule || !is_floating(call.results[0].dtype)) return rule;
    rule->linear = {{0}};
    if (adds(node)) rule->linear[0].push_back(static_cast<std::uint32_t>(call.operands.size() - 1));
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.gathers = !adds(call.node);
    if (puts_under_mask(call)) return cost;
    if (cost.gathers) return cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 1;
    for (const auto& dimension : rule.operands.back().dimensions) {
      term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    }
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    OpCall forward{call.node, {}, {}};
    for (const Operand& operand : call.node.operands) forward.operands.push_back(call.type(operand.value));
    return puts_under_mask(forward) ? masked_gradient(call) : indexing_gradient(call);
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    return puts_under_mask(call) ? masked_evaluate(call, operands) : indexing_evaluate(call, operands);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "indexing", "0.1.0", "Apache-2.0", "Elements picked by tensors of positions, or added at them",
                  kOps, nullptr, 0, (create_plugin<OpFamily, Indexing>), destroy_plugin<OpFamily>)

}  // namespace meshwright
