// Layer norm, (x − mean) / √(variance + eps) · weight + bias, and RMS norm, which leaves the mean out.
#include "patterns.h"
#include "reader.h"

namespace meshwright::onnx {

namespace {

struct Statistics {
  ValueId centered = kNoId;  // what is squared
  std::vector<std::int64_t> normalized;
  double eps = 0;
};

class Normalization {
 public:
  explicit Normalization(const Reader& reader) : read_(reader) {}

  // value = c / √(mean(c²) + eps): gives c and the rest.
  [[nodiscard]] std::optional<Statistics> scaled_down(const Node& node) const {
    if (node.op == "aten.div.Tensor" && node.operands.size() == 2) {
      const Node* root = read_.maker(node.operands[1].value, "aten.sqrt");
      return root == nullptr ? std::nullopt : checked(statistics(root->operands[0].value), node.operands[0].value);
    }
    if (node.op != "aten.mul.Tensor" || node.operands.size() != 2) return std::nullopt;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto found = checked(inverse_root(node.operands[1 - i].value), node.operands[i].value);
      if (found) return found;
    }
    return std::nullopt;
  }

  // x, if `centered` is x − mean(x) over those dimensions.
  [[nodiscard]] std::optional<ValueId> uncentered(ValueId centered, const std::vector<std::int64_t>& normalized) const {
    const Node* sub = read_.maker(centered, "aten.sub.Tensor");
    if (sub == nullptr || sub->operands.size() != 2) return std::nullopt;
    const Node* mean = read_.maker(sub->operands[1].value, "aten.mean.dim");
    if (mean == nullptr || mean->operands[0].value != sub->operands[0].value || read_.trailing(*mean) != normalized)
      return std::nullopt;
    return sub->operands[0].value;
  }

 private:
  // 1 / √(mean(c²) + eps)
  [[nodiscard]] std::optional<Statistics> inverse_root(ValueId value) const {
    const Node* node = read_.maker(value);
    if (node == nullptr) return std::nullopt;
    if (node->op == "aten.rsqrt" || (node->op == "aten.pow.Tensor_Scalar" && Reader::number(*node, "exponent") == -0.5))
      return statistics(node->operands[0].value);
    if (node->op != "aten.reciprocal") return std::nullopt;
    const Node* root = read_.maker(node->operands[0].value, "aten.sqrt");
    return root == nullptr ? std::nullopt : statistics(root->operands[0].value);
  }

  // mean(c²) + eps
  [[nodiscard]] std::optional<Statistics> statistics(ValueId value) const {
    const Node* add = read_.maker(value, "aten.add.Tensor");
    const auto eps = add != nullptr && add->operands.size() == 1 ? Reader::number(*add) : std::nullopt;
    const Node* mean = eps ? read_.maker(add->operands[0].value, "aten.mean.dim") : nullptr;
    const auto normalized = mean != nullptr ? read_.trailing(*mean) : std::nullopt;
    const auto centered = normalized ? read_.base_of_power(mean->operands[0].value, 2) : std::nullopt;
    if (!centered || *eps <= 0) return std::nullopt;
    return Statistics{*centered, *normalized, *eps};
  }

  // Exporters may have computed x − mean(x) twice, for the square and for the quotient.
  [[nodiscard]] std::optional<Statistics> checked(std::optional<Statistics> found, ValueId numerator) const {
    if (!found || found->centered == numerator) return found;
    const Node* a = read_.maker(found->centered, "aten.sub.Tensor");
    const Node* b = read_.maker(numerator, "aten.sub.Tensor");
    if (a == nullptr || b == nullptr || a->operands.size() != 2 || b->operands.size() != 2) return std::nullopt;
    const auto x = uncentered(found->centered, found->normalized);
    return x && uncentered(numerator, found->normalized) == x ? found : std::nullopt;
  }

  const Reader& read_;
};

// The one node that goes on with the value by this op and a source of this shape; `operand` gets the source.
Node* next_with(const Reader& read, ValueId value, const char* op, const std::vector<std::int64_t>& shape,
                ValueId& operand) {
  if (!read.users().is_alone(value)) return nullptr;
  Node& user = read.graph().nodes[read.users().of(value)[0].node];
  if (user.op != op || user.operands.size() != 2) return nullptr;
  const ValueId other = user.operands[user.operands[0].value == value ? 1 : 0].value;
  const Value& source = read.graph().values[other];
  if (source.producer != kNoId || source.type.shape != shape) return nullptr;
  operand = other;
  return &user;
}

int recognise_norms(Graph& graph, bool with_mean) {
  const Reader read(graph);
  const Normalization normalization(read);
  int found = 0;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node* last = &graph.nodes[id];
    const auto statistics = normalization.scaled_down(*last);
    if (!statistics) continue;
    const auto x = normalization.uncentered(statistics->centered, statistics->normalized);
    if (with_mean != x.has_value()) continue;
    ValueId weight = kNoId, bias = kNoId;
    if (Node* scale = next_with(read, last->results[0], "aten.mul.Tensor", statistics->normalized, weight)) {
      last = scale;
      if (Node* shift =
              with_mean ? next_with(read, last->results[0], "aten.add.Tensor", statistics->normalized, bias) : nullptr)
        last = shift;
    }
    std::vector<Operand> operands = {{"input", with_mean ? *x : statistics->centered}};
    if (weight != kNoId) operands.push_back({"weight", weight});
    if (bias != kNoId) operands.push_back({"bias", bias});
    become(*last, with_mean ? "aten.layer_norm" : "aten.rms_norm", std::move(operands),
           {{"normalized_shape", statistics->normalized}, {"eps", statistics->eps}});
    ++found;
  }
  return found;
}

}  // namespace

int recognise_layer_norm(Graph& graph) { return recognise_norms(graph, true); }
int recognise_rms_norm(Graph& graph) { return recognise_norms(graph, false); }

}  // namespace meshwright::onnx
