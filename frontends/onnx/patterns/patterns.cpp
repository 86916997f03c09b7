#include "patterns.h"

#include <map>

#include "meshwright/log.h"

namespace meshwright::onnx {

namespace {

constexpr std::int64_t kLayerNormalization = 17, kGelu = 20,
                       kAttention = 23;                       // the opsets from which ONNX has an op for it
constexpr std::int64_t kLargestMask = std::int64_t{1} << 26;  // elements that are worth looking at

void warn_of(const std::vector<std::string>& left, const std::string& sentence) {
  if (left.empty()) return;
  const std::string others = left.size() > 1 ? " and " + std::to_string(left.size() - 1) + " more" : "";
  log(LogLevel::warning, "onnx", "node '" + left[0] + "'" + others + ": " + sentence);
}

// What `recognise` would find, without doing it: named, because a plan with the whole may be faster.
void name_those_of_author(const Graph& graph, const std::string& what, const std::function<void(Graph&)>& recognise) {
  Graph changed = graph;
  recognise(changed);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != changed.nodes[i].op) names.push_back(graph.nodes[i].name);
  }
  warn_of(names,
          what + " stays in pieces, which may be how the model's author wrote it; --set frontend.onnx.patterns=all makes it one op");
}

}  // namespace

void apply_patterns(Graph& graph, const Constants& constants, const StoredBytes& bytes,
                    const PatternSettings& settings) {
  recognise_linear(graph);
  recognise_bias(graph);
  if (settings.wanted == "none") return;
  std::map<ValueId, Literal> read;
  const Content content = [&](ValueId value) -> const Literal* {
    const std::string& name = graph.values[value].name;
    if (graph.values[value].producer != kNoId) return nullptr;
    if (const auto known = constants.literals.find(name); known != constants.literals.end()) return &known->second;
    if (const auto again = read.find(value); again != read.end()) return &again->second;
    const auto stored = constants.stored.find(name);
    if (stored == constants.stored.end() || stored->second.type.elements() > kLargestMask || !bytes.has(stored->second))
      return nullptr;
    const Result<Tensor> tensor = bytes.read(stored->second);
    return tensor ? &(read[value] = literal_of(*tensor)) : nullptr;
  };
  // A number with a name of its own may be trained: a temperature.
  settle_scalars(graph, [&](ValueId value) -> const Literal* {
    const std::string& name = graph.values[value].name;
    return constants.of_nodes.contains(name) || is_made_up(name) ? content(value) : nullptr;
  });
  std::vector<std::string> left;
  // What PyTorch's exporter has an op for, and writes in pieces all the same, is in pieces in the model: it stays so,
  // as in the .pt2.
  const bool exported = settings.wanted == "auto" && settings.producer == "pytorch";
  recognise_silu(graph);
  if (!exported || settings.opset < kLayerNormalization) recognise_layer_norm(graph);
  if (exported && settings.opset < kGelu) recognise_exported_gelu(graph);
  if (!exported || settings.opset < kAttention) {
    recognise_attention(graph, content, left);
    warn_of(left,
            "what looks like attention, a softmax between two products, stays in pieces, because it has a form that no "
            "pattern knows");
  }
  if (!exported) {
    recognise_rms_norm(graph);
    recognise_gelu(graph);
    return;
  }
  name_those_of_author(graph, "a layer norm", [](Graph& copy) { recognise_layer_norm(copy); });
  name_those_of_author(graph, "an RMS norm", [](Graph& copy) { recognise_rms_norm(copy); });
  name_those_of_author(graph, "a gelu", [](Graph& copy) { recognise_gelu(copy); });
  name_those_of_author(graph, "an attention", [&](Graph& copy) {
    std::vector<std::string> ignored;
    recognise_attention(copy, content, ignored);
  });
}

}  // namespace meshwright::onnx
