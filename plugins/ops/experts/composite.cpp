// What torch.export leaves of the experts of transformers (its `grouped_mm` implementation), from the end backwards:
//
//   order = sort(view(indices, [t·k]))                     the expert of each copy, and where it came from
//   rows  = index(hidden, [order.indices // k])
//   ends  = cumsum(histc(order.values))
//   inner = split(grouped_mm(rows, transpose(gate_up), ends), i)
//   out   = grouped_mm(act(inner.0) · inner.1, transpose(down), ends)
//   out   = index(out · unsqueeze(index(view(weights), [order.indices])), [inverse of order.indices])
//   sum(view(out, [t, k, h]), 1)
//
// gpt-oss has its weights as [expert, in, out], without the transposes, adds each expert's bias to both products, and cuts
// and clamps the gate and the other half, which take turns in the first product:
//
//   g, u = min(inner[:, ::2], limit), clamp(inner[:, 1::2], -limit, limit)
//   out  = grouped_mm((u + 1) · g · sigmoid(alpha · g), down, ends) + index(bias, [order.values])
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "experts.h"

namespace meshwright {

namespace {

// Thrown and caught here: why a match fails.
struct Refusal {
  std::string reason;
};

bool is_grouped_product(const std::string& op) {
  return op == "aten._grouped_mm" || op == "transformers.grouped_mm" || op == "transformers.grouped_mm_fallback";
}

class Matcher {
 public:
  Matcher(const Graph& graph, const std::vector<std::vector<NodeId>>& users) : graph_(graph), users_(users) {}

  // `last`: the second of the two grouped products.
  Composite match(NodeId last, const ExpertSettings& settings) {
    const Node& product = graph_.nodes[last];
    require(product.operands.size() >= 3 && product.results.size() == 1, "it is no product of rows and weights");
    // Down to the sum over a token's copies.
    ValueId outputs = product.results[0];
    const Node* biased = users_[outputs].size() == 1 ? &graph_.nodes[users_[outputs][0]] : nullptr;
    if (biased != nullptr && biased->op != "aten.add.Tensor") biased = nullptr;
    if (biased != nullptr) outputs = biased->results[0];
    const Node& weighted = of_two(only_user(outputs, "aten.mul.Tensor"));
    const ValueId scale = weighted.operands[0].value == outputs ? weighted.operands[1].value : weighted.operands[0].value;
    const Node& restored = only_user(weighted.results[0], "aten.index.Tensor");
    const Node& copies = only_user(restored.results[0], "aten.view");
    const Node& sum = only_user(copies.results[0], "aten.sum.dim_IntList");
    const std::vector<std::int64_t>& shape = graph_.type(copies.results[0]).shape;
    require(shape.size() == 3 && sum.integers("dim") == std::vector<std::int64_t>{1} && !sum.boolean("keepdim", false),
            "its results are not added over each token's experts");
    const std::int64_t k = shape[1];

    // Up to the router.
    const Node& row_weights = made_by(made_by(scale, {"aten.unsqueeze"}).operands[0].value, {"aten.index.Tensor"});
    const ValueId order = operand(row_weights, "indices.0");
    const Node& sort = made_by(order, {"aten.sort"});
    require(sort.results.size() == 2 && sort.results[1] == order, "its rows are not ordered by a sort");
    const ValueId indices = skip_view(operand(sort, "self"));
    const ValueId weights = skip_view(operand(row_weights, "self"));
    require(graph_.type(indices).shape == std::vector<std::int64_t>{shape[0], k},
            "the experts' numbers are not one row for each token");
    require(graph_.type(weights).shape == std::vector<std::int64_t>{shape[0], k},
            "the experts' weights are not one row for each token");
    check_inverse(operand(restored, "indices.0"), order);
    check_ends(operand(product, "offs"), sort.results[0]);

    std::optional<ValueId> down_bias;
    if (biased != nullptr) down_bias = bias_of(*biased, product.results[0], sort.results[0]);

    // Up through the two products.
    const Gating gating = gating_of(of_two(made_by(product.operands[0].value, {"aten.mul.Tensor"})));
    const Node* found = find_producer(gating.inner);
    std::optional<ValueId> gate_up_bias;
    if (found != nullptr && found->op == "aten.add.Tensor") {
      const Node* producer = find_producer(of_two(*found).operands[0].value);
      const bool is_first = producer != nullptr && is_grouped_product(producer->op);
      const ValueId made = found->operands[is_first ? 0 : 1].value;
      gate_up_bias = bias_of(*found, made, sort.results[0]);
      found = find_producer(made);
    }
    require(found != nullptr && is_grouped_product(found->op), "what it gates is not made by a grouped product");
    const Node& first = *found;
    require(operand(first, "offs") == operand(product, "offs"), "its two products are grouped differently");
    require(first.operands.size() >= 3, "its first product is not of rows and weights");
    const Node& rows = made_by(first.operands[0].value, {"aten.index.Tensor"});
    const ValueId hidden = operand(rows, "self");
    const Node& token =
        made_by(operand(rows, "indices.0"), {"aten.floor_divide", "aten.div.Tensor_mode", "aten.floor_divide.Scalar"});
    require(token.operands[0].value == order && token.number("other", 0) == static_cast<double>(k),
            "its rows are not the tokens, once for each expert");
    const Weight gate_up = weight_of(first.operands[1].value), down = weight_of(product.operands[1].value);
    require(gate_up.in_first == down.in_first, "one of its weights is stored as [expert, out, in], the other as [expert, in, out]");
    require(graph_.type(hidden).rank() == 2 && graph_.type(hidden).shape[0] == shape[0],
            "its rows are not taken from tokens");

    Composite composite;
    composite.node.op = kExperts;
    composite.node.name = sum.name;
    composite.node.module_path = product.module_path;
    composite.node.operands = {
        {"hidden", hidden}, {"indices", indices}, {"weights", weights}, {"gate_up", gate_up.value}, {"down", down.value}};
    if (gate_up_bias) composite.node.operands.push_back({"gate_up_bias", *gate_up_bias});
    composite.node.attributes = gating.attributes;
    if (gate_up.in_first) composite.node.attributes["in_first"] = true;
    composite.node.attributes["distinct"] = comes_from_topk(indices);
    composite.node.attributes["capacity_factor"] = settings.capacity_factor;
    composite.node.attributes["imbalance"] = settings.imbalance;
    composite.node.results = sum.results;
    const std::int64_t width = graph_.type(hidden).shape[1], inner = graph_.type(down.value).shape[down.in_first ? 1 : 2];
    add_saved(composite, "rows", width);
    add_saved(composite, "inner", 2 * inner);
    add_saved(composite, "gate", inner);
    add_saved(composite, "product", inner);
    add_saved(composite, "outputs", graph_.type(down.value).shape[down.in_first ? 2 : 1]);
    if (down_bias) add_biases(composite, *down_bias);
    composite.at = graph_.values[sum.results[0]].producer;
    first_ = graph_.values[first.results[0]].producer;
    return composite;
  }

  // A result for the backward: so much of each copy of a token.
  void add_saved(Composite& composite, const std::string& name, std::int64_t width) const {
    std::vector<std::int64_t> shape = graph_.type(operand(composite.node, "indices")).shape;
    shape.push_back(width);
    composite.node.results.push_back(kNewValue + static_cast<ValueId>(composite.values.size()));
    const DType dtype = graph_.type(composite.node.operands[0].value).dtype;
    composite.values.push_back({composite.node.name + "_" + name, {dtype, std::move(shape)}, kNoId, false});
  }

  // The first of the two products, after a match.
  [[nodiscard]] NodeId first_product() const { return first_; }

 private:
  // What stands between the two products: of which value, and the attributes that say it.
  struct Gating {
    ValueId inner = kNoId;
    Attributes attributes;
  };

  // A weight as it is stored: [expert, out, in], or [expert, in, out].
  struct Weight {
    ValueId value = kNoId;
    bool in_first = false;
  };

  Gating gating_of(const Node& gated) const {
    const ValueId one = gated.operands[0].value, other = gated.operands[1].value;
    for (const auto& [gate, rest] : {std::pair(one, other), std::pair(other, one)}) {
      const Node* activation = find_producer(gate);
      if (activation == nullptr) continue;
      if (!activation_of(*activation).empty()) return halves(*activation, rest);
      if (activation->op == "aten.mul.Tensor") return clamped(of_two(*activation), rest);
    }
    throw Refusal{"what stands between its products is not silu, gelu or relu of one half, times the other"};
  }

  Gating halves(const Node& gate, ValueId other) const {
    const Node& split = made_by(gate.operands[0].value, {"aten.split.Tensor", "aten.chunk", "aten.split_with_sizes"});
    require(split.results.size() == 2 && split.results[0] == gate.operands[0].value && split.results[1] == other &&
                graph_.type(split.results[0]) == graph_.type(split.results[1]),
            "the gate is not the first half of the first product");
    return {operand(split, "self"), {{"activation", activation_of(gate)}}};
  }

  // g · sigmoid(alpha · g) and u + 1, in either order of factors.
  Gating clamped(const Node& gate, ValueId other) const {
    const Node* sigmoid = find_producer(gate.operands[1].value);
    const bool last = sigmoid != nullptr && sigmoid->op == "aten.sigmoid";
    if (!last) sigmoid = &made_by(gate.operands[0].value, {"aten.sigmoid"});
    const ValueId g = gate.operands[last ? 0 : 1].value;
    const Node& scaled = made_by(sigmoid->operands[0].value, {"aten.mul.Tensor", "aten.mul.Scalar"});
    require(scaled.operands.size() == 1 && scaled.operands[0].value == g, "its gate is not g · sigmoid(alpha · g)");
    const Node& raised = made_by(other, {"aten.add.Tensor", "aten.add.Scalar"});
    require(raised.operands.size() == 1 && raised.number("other", 0) == 1 && raised.number("alpha", 1) == 1, "one half is not raised by 1");
    const Node &upper = made_by(g, {"aten.clamp", "aten.clamp_max"}), &both = made_by(raised.operands[0].value, {"aten.clamp"});
    const double limit = upper.number("max", 0);
    require(limit > 0 && upper.number("min", -INFINITY) == -INFINITY && both.number("max", 0) == limit && both.number("min", 0) == -limit,
            "its halves are not cut at one limit");
    const ValueId inner = every_other(upper.operands[0].value, 0);
    require(every_other(both.operands[0].value, 1) == inner, "its halves are not those of one product");
    return {inner, {{"activation", std::string("clamped")}, {"interleaved", true}, {"alpha", scaled.number("other", 0)}, {"limit", limit}}};
  }

  // x of x[:, start::2].
  ValueId every_other(ValueId value, std::int64_t start) const {
    const Node& slice = made_by(value, {"aten.slice.Tensor"});
    const ValueId whole = operand(slice, "self");
    const std::vector<std::int64_t>& shape = graph_.type(whole).shape;
    const bool fits = shape.size() == 2 && (slice.integer("dim", 0) == 1 || slice.integer("dim", 0) == -1) && slice.integer("start", 0) == start &&
                      slice.integer("step", 1) == 2 && slice.integer("end", INT64_MAX) >= shape[1];
    require(fits, "its gate is not every other number of the first product");
    return whole;
  }

  // Of rows + index(bias, [sorted]), the bias: that of each row's expert.
  ValueId bias_of(const Node& add, ValueId rows, ValueId sorted) const {
    require(add.number("alpha", 1) == 1, "what is added to a product is no bias of each expert");
    const ValueId other = of_two(add).operands[add.operands[0].value == rows ? 1 : 0].value;
    const Node& index = made_by(other, {"aten.index.Tensor"});
    const ValueId bias = operand(index, "self");
    require(graph_.type(bias).rank() == 2 && operand(index, "indices.0") == sorted, "what is added to a product is no bias of each expert");
    return bias;
  }

  // A call of two tensors, neither of them a number.
  static const Node& of_two(const Node& node) {
    require(node.operands.size() == 2, "'" + node.name + "' has a number in place of a tensor");
    return node;
  }

  // The layer's result without biases, and what the weighted biases of a token's experts add to it.
  void add_biases(Composite& composite, ValueId bias) const {
    Node layer = std::move(composite.node);
    const ValueId result = layer.results[0], indices = operand(layer, "indices"), weights = operand(layer, "weights");
    const TensorType type = graph_.type(result);
    require(graph_.type(weights).dtype == type.dtype && graph_.type(bias).dtype == type.dtype, "its biases and weights have other dtypes");
    std::vector<std::int64_t> each = graph_.type(indices).shape, copies = each;
    each.push_back(1);
    copies.push_back(type.shape[1]);
    const auto made = [&](const char* what, std::vector<std::int64_t> shape, DType dtype) {
      composite.values.push_back({layer.name + "_" + what, {dtype, std::move(shape)}, kNoId, false});
      return kNewValue + static_cast<ValueId>(composite.values.size() - 1);
    };
    const auto emit = [&](const char* op, std::vector<Operand> operands, Attributes attributes, ValueId to) {
      Node& node = composite.before.emplace_back();
      node.op = op;
      node.name = to == result ? layer.name : composite.values[to - kNewValue].name;
      node.module_path = layer.module_path;
      node.operands = std::move(operands);
      node.attributes = std::move(attributes);
      node.results = {to};
      return to;
    };
    const ValueId plain = made("layer", type.shape, type.dtype);
    const ValueId found = emit("aten.index.Tensor", {{"self", bias}, {"indices.0", indices}}, {}, made("biases", copies, graph_.type(bias).dtype));
    const ValueId column = emit("aten.unsqueeze", {{"self", weights}}, {{"dim", std::int64_t{-1}}}, made("column", each, graph_.type(weights).dtype));
    const ValueId weighted = emit("aten.mul.Tensor", {{"self", found}, {"other", column}}, {}, made("weighted", copies, type.dtype));
    const ValueId sum =
        emit("aten.sum.dim_IntList", {{"self", weighted}}, {{"dim", std::vector<std::int64_t>{1}}}, made("bias", type.shape, type.dtype));
    emit("aten.add.Tensor", {{"self", plain}, {"other", sum}}, {}, result);
    composite.node = std::move(composite.before.back());
    composite.before.pop_back();
    layer.results[0] = plain;
    layer.name += "_layer";
    composite.before.insert(composite.before.begin(), std::move(layer));
  }

  static void require(bool condition, const std::string& reason) {
    if (!condition) throw Refusal{reason};
  }

  const Node* find_producer(ValueId value) const {
    const NodeId producer = graph_.values[value].producer;
    return producer == kNoId ? nullptr : &graph_.nodes[producer];
  }

  const Node& made_by(ValueId value, std::initializer_list<const char*> ops) const {
    const Node* node = find_producer(value);
    const bool known = node != nullptr && std::find(ops.begin(), ops.end(), node->op) != ops.end();
    require(known, "'" + graph_.values[value].name + "' is made by " + (node ? node->op : std::string("no op")) +
                       ", not by " + *ops.begin());
    return *node;
  }

  const Node& only_user(ValueId value, const char* op) const {
    require(users_[value].size() == 1 && graph_.nodes[users_[value][0]].op == op,
            "'" + graph_.values[value].name + "' is not used by one " + op + " alone");
    return graph_.nodes[users_[value][0]];
  }

  ValueId operand(const Node& node, const char* name) const {
    const auto index = node.operand_index(name);
    require(index.has_value(), "'" + node.name + "' has no operand " + name);
    return node.operands[*index].value;
  }

  ValueId skip_view(ValueId value) const {
    const Node* node = find_producer(value);
    if (node == nullptr || (node->op != "aten.view" && node->op != "aten.reshape")) return value;
    return node->operands[0].value;
  }

  // What is multiplied as [expert, in, out]: a transpose over the last two dimensions, or stored so.
  Weight weight_of(ValueId value) const {
    const std::int64_t rank = graph_.type(value).rank();
    require(rank == 3, "its weights have other dimensions than expert, in and out");
    const Node* node = find_producer(value);
    if (node == nullptr || (node->op != "aten.transpose.int" && node->op != "aten.permute")) return {value, true};
    const auto dimension = [&](const char* name) { return (node->integer(name, 0) + rank) % rank; };
    const bool swaps = node->op == "aten.permute" ? node->integers("dims") == std::vector<std::int64_t>{0, 2, 1}
                                                  : dimension("dim0") + dimension("dim1") == 3 && dimension("dim0") != 0 && dimension("dim1") != 0;
    require(swaps, "its weights are not stored as [expert, out, in]");
    return {node->operands[0].value, false};
  }

  // index_put(empty, [order], arange), or argsort(order).
  void check_inverse(ValueId value, ValueId order) const {
    const Node* node = find_producer(value);
    if (node != nullptr && node->op == "aten.sort" && node->results[1] == value) {
      require(made_by(value, {"aten.sort"}).operands[0].value == order,
              "its results are not put back in the tokens' order");
      return;
    }
    const Node& put = made_by(value, {"aten.index_put"});
    require(operand(put, "indices.0") == order, "its results are not put back in the tokens' order");
    const Node& numbers =
        made_by(operand(put, "values"), {"aten.arange", "aten.arange.start", "aten.arange.start_step"});
    require(numbers.number("start", 0) == 0 && numbers.number("step", 1) == 1,
            "its results are not put back in the tokens' order");
  }

  // cumsum of how many rows each expert has.
  void check_ends(ValueId value, ValueId sorted) const {
    const Node& sums = made_by(value, {"aten.cumsum"});
    const Node& counts = made_by(operand(sums, "self"), {"aten.histc", "aten.bincount"});
    ValueId counted = operand(counts, "self");
    if (counted != sorted) counted = made_by(counted, {"aten._to_copy"}).operands[0].value;
    require(counted == sorted, "its groups are not the experts' rows");
  }

  static std::string activation_of(const Node& node) {
    if (node.op == "aten.silu") return "silu";
    if (node.op == "aten.relu") return "relu";
    if (node.op == "aten.gelu") return node.text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu";
    return "";
  }

  bool comes_from_topk(ValueId indices) const {
    const Node* node = find_producer(indices);
    return node != nullptr && node->op == "aten.topk" && node->results[1] == indices;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>>& users_;
  NodeId first_ = kNoId;
};

}  // namespace

FoundComposites find_expert_layers(const Graph& graph, const ExpertSettings& settings) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    for (const Operand& operand : graph.nodes[id].operands) users[operand.value].push_back(id);
  }
  FoundComposites found;
  std::vector<NodeId> products;
  std::vector<bool> gathered(graph.nodes.size(), false);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (is_grouped_product(graph.nodes[id].op)) products.push_back(id);
  }
  // The last product of a layer first: it takes the one before with it.
  std::map<NodeId, std::string> refused;
  for (auto id = products.rbegin(); id != products.rend(); ++id) {
    if (gathered[*id]) continue;
    try {
      Matcher matcher(graph, users);
      found.composites.push_back(matcher.match(*id, settings));
      gathered[matcher.first_product()] = true;
    } catch (const Refusal& refusal) {
      refused[*id] = refusal.reason;
    }
  }
  std::reverse(found.composites.begin(), found.composites.end());
  for (const auto& [id, reason] : refused) {
    const Node& node = graph.nodes[id];
    found.refused.push_back("The grouped matrix product '" + node.name + "' in " +
                            (node.module_path.empty() ? "the model" : node.module_path) +
                            " is not known as a layer of experts and runs as it is: " + reason + ".");
  }
  return found;
}

}  // namespace meshwright
