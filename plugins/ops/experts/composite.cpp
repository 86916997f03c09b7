// What torch.export leaves of the experts of transformers (its `grouped_mm` implementation), from the end backwards:
//
//   order = sort(view(indices, [t·k]))                     the expert of each copy, and where it came from
//   rows  = index(hidden, [order.indices // k])
//   ends  = cumsum(histc(order.values))
//   inner = split(grouped_mm(rows, transpose(gate_up), ends), i)
//   out   = grouped_mm(act(inner.0) · inner.1, transpose(down), ends)
//   out   = index(out · unsqueeze(index(view(weights), [order.indices])), [inverse of order.indices])
//   sum(view(out, [t, k, h]), 1)
#include <algorithm>
#include <map>

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
    // Down to the sum over a token's copies.
    const Node& weighted = only_user(product.results[0], "aten.mul.Tensor");
    const ValueId scale =
        weighted.operands[0].value == product.results[0] ? weighted.operands[1].value : weighted.operands[0].value;
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

    // Up through the two products.
    const Node& gated = made_by(product.operands[0].value, {"aten.mul.Tensor"});
    const Node* gate = find_producer(gated.operands[0].value);
    ValueId other = gated.operands[1].value;
    if (gate == nullptr || activation_of(*gate).empty())
      gate = find_producer(gated.operands[1].value), other = gated.operands[0].value;
    require(gate != nullptr && !activation_of(*gate).empty(),
            "what stands between its products is not silu, gelu or relu of one half, times the other");
    const Node& split = made_by(gate->operands[0].value, {"aten.split.Tensor", "aten.chunk", "aten.split_with_sizes"});
    require(split.results.size() == 2 && split.results[0] == gate->operands[0].value && split.results[1] == other &&
                graph_.type(split.results[0]) == graph_.type(split.results[1]),
            "the gate is not the first half of the first product");
    const Node* found = find_producer(operand(split, "self"));
    require(found != nullptr && is_grouped_product(found->op), "what it gates is not made by a grouped product");
    const Node& first = *found;
    require(operand(first, "offs") == operand(product, "offs"), "its two products are grouped differently");
    const Node& rows = made_by(first.operands[0].value, {"aten.index.Tensor"});
    const ValueId hidden = operand(rows, "self");
    const Node& token =
        made_by(operand(rows, "indices.0"), {"aten.floor_divide", "aten.div.Tensor_mode", "aten.floor_divide.Scalar"});
    require(token.operands[0].value == order && token.number("other", 0) == static_cast<double>(k),
            "its rows are not the tokens, once for each expert");
    const ValueId gate_up = transposed(first.operands[1].value), down = transposed(product.operands[1].value);
    require(graph_.type(hidden).rank() == 2 && graph_.type(hidden).shape[0] == shape[0],
            "its rows are not taken from tokens");

    Composite composite;
    composite.node.op = kExperts;
    composite.node.name = sum.name;
    composite.node.module_path = product.module_path;
    composite.node.operands = {
        {"hidden", hidden}, {"indices", indices}, {"weights", weights}, {"gate_up", gate_up}, {"down", down}};
    composite.node.attributes["activation"] = activation_of(*gate);
    composite.node.attributes["distinct"] = comes_from_topk(indices);
    composite.node.attributes["capacity_factor"] = settings.capacity_factor;
    composite.node.attributes["imbalance"] = settings.imbalance;
    composite.node.results = sum.results;
    const std::int64_t width = graph_.type(hidden).shape[1], inner = graph_.type(down).shape[2];
    add_saved(composite, "rows", width);
    add_saved(composite, "inner", 2 * inner);
    add_saved(composite, "gate", inner);
    add_saved(composite, "product", inner);
    add_saved(composite, "outputs", graph_.type(down).shape[1]);
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

  // A parameter's transpose over its last two dimensions.
  ValueId transposed(ValueId value) const {
    const Node& node = made_by(value, {"aten.transpose.int", "aten.permute"});
    const std::int64_t rank = graph_.type(value).rank();
    const auto dimension = [&](const char* name) { return (node.integer(name, 0) + rank) % rank; };
    const bool swaps = node.op == "aten.permute" ? node.integers("dims") == std::vector<std::int64_t>{0, 2, 1}
                                                 : dimension("dim0") + dimension("dim1") == 3 &&
                                                       dimension("dim0") != 0 && dimension("dim1") != 0;
    require(rank == 3 && swaps, "its weights are not stored as [expert, out, in]");
    return node.operands[0].value;
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
