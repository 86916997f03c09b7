#include "sources.h"

#include <algorithm>
#include <set>

#include "graph_edit.h"

namespace meshwright::onnx {

namespace {

bool is_view(const Node& node) {
  static const std::set<std::string_view> views = {"aten.view",    "aten.unsqueeze",     "aten.expand", "aten.clone",
                                                   "aten.permute", "aten.transpose.int", "aten.alias"};
  return views.contains(node.op);
}

class Classifier {
 public:
  Classifier(Graph& graph, const Constants& constants) : graph_(graph), constants_(constants), users_(graph) {}

  void run() {
    for (Source& source : graph_.sources) {
      if (source.kind == SourceKind::user_input) continue;
      source.kind = kind_of(source);
      graph_.values[source.value].requires_gradient = source.kind == SourceKind::parameter;
    }
    mark_gradients(graph_);
  }

 private:
  SourceKind kind_of(const Source& source) const {
    const std::string& name = source.names.front();
    const TensorType& type = graph_.type(source.value);
    if (!is_floating(type.dtype) || !constants_.stored.contains(name)) return SourceKind::constant;
    if (is_used(source.value, [](const Node&, const std::string& operand) {
          return operand == "running_mean" || operand == "running_var";
        }))
      return SourceKind::buffer;
    const bool weight = type.rank() >= 2 && is_used(source.value, [](const Node& node, const std::string& operand) {
                          return is_factor(node, operand);
                        });
    if (constants_.of_nodes.contains(name)) return weight ? SourceKind::parameter : SourceKind::constant;
    if (is_mask(source.value)) return SourceKind::constant;
    const bool made_up = is_made_up(name);
    if (type.elements() == 1)
      return made_up || name.find('.') == std::string::npos ? SourceKind::constant : SourceKind::parameter;
    if (name.ends_with("inv_freq")) return SourceKind::buffer;
    if (!made_up || weight) return SourceKind::parameter;
    const bool added = is_used(source.value, [](const Node& node, const std::string& operand) {
      return node.op == "aten.add.Tensor" || operand == "bias" || operand == "weight" ||
             (operand == "self" && node.op == "aten.addmm");
    });
    return added ? SourceKind::parameter : SourceKind::constant;
  }

  static bool is_factor(const Node& node, const std::string& operand) {
    static const std::set<std::string_view> products = {"aten.linear", "aten.addmm",       "aten.mm",
                                                        "aten.bmm",    "aten.matmul",      "aten.conv1d",
                                                        "aten.conv2d", "aten.convolution", "aten.einsum"};
    return products.contains(node.op) && operand != "input" && operand != "bias";
  }

  template <class Test>
  bool is_used(ValueId value, Test test) const {
    return std::ranges::any_of(users_.of(value), [&](const Use& use) {
      return test(graph_.nodes[use.node], graph_.nodes[use.node].operands[use.operand].name);
    });
  }

  // Whether the value is alike for all heads and goes into a softmax over scores.
  bool is_mask(ValueId value) const {
    const std::vector<std::int64_t>& shape = graph_.type(value).shape;
    const bool alike = shape.size() < 3 || shape[shape.size() - 3] == 1;
    return alike && shape.size() >= 2 && is_used(value, [&](const Node& node, const std::string& operand) {
             return operand == "attn_mask" || (node.op == "aten.add.Tensor" && reaches_softmax(node.results[0], 4)) ||
                    (is_view(node) && is_mask(node.results[0]));
           });
  }

  bool reaches_softmax(ValueId value, int steps) const {
    return std::ranges::any_of(users_.of(value), [&](const Use& use) {
      const Node& node = graph_.nodes[use.node];
      return node.op == "aten.softmax.int" || (steps > 0 && (is_view(node) || node.op == "aten.add.Tensor") &&
                                               !node.results.empty() && reaches_softmax(node.results[0], steps - 1));
    });
  }

  Graph& graph_;
  const Constants& constants_;
  Users users_;
};

}  // namespace

void classify_sources(Graph& graph, const Constants& constants) { Classifier(graph, constants).run(); }

}  // namespace meshwright::onnx
