#include "patterns.h"

#include <map>

#include "meshwright/log.h"

namespace meshwright::onnx {

namespace {

constexpr std::int64_t kLayerNormalization = 17, kGelu = 20, kAttention = 23;  // the opsets from which ONNX has an op for it
constexpr std::int64_t kLargestMask = std::int64_t{1} << 26;                   // elements that are worth looking at

void name_those_left(const std::vector<std::string>& left, const std::string& what, const std::string& why, LogLevel level) {
  if (left.empty()) return;
  const std::string others = left.size() > 1 ? " and " + std::to_string(left.size() - 1) + " more" : "";
  log(level, "onnx", "node '" + left[0] + "'" + others + ": " + what + " stays in pieces, " + why);
}

}  // namespace

void apply_patterns(Graph& graph, const Constants& constants, const StoredBytes& bytes, const PatternSettings& settings) {
  recognise_linear(graph);
  recognise_bias(graph);
  if (settings.wanted == "none") return;
  // What PyTorch's exporter has an op for, and writes in pieces all the same, is in pieces in the model: it stays so, as in the .pt2.
  const bool exported = settings.wanted == "auto" && settings.producer == "pytorch";
  recognise_silu(graph);
  if (!exported || settings.opset < kLayerNormalization) recognise_layer_norm(graph);
  if (!exported) recognise_rms_norm(graph);
  std::vector<std::string> left;
  if (!exported || settings.opset < kGelu) {
    recognise_gelu(graph, exported, left);
    name_those_left(left, "a tanh-approximated gelu", "as the model's author wrote it; --set frontend.onnx.patterns=all makes it one op", LogLevel::info);
  }
  if (exported && settings.opset >= kAttention) return;
  std::map<ValueId, Literal> read;
  const Content content = [&](ValueId value) -> const Literal* {
    const std::string& name = graph.values[value].name;
    if (graph.values[value].producer != kNoId) return nullptr;
    if (const auto known = constants.literals.find(name); known != constants.literals.end()) return &known->second;
    if (const auto again = read.find(value); again != read.end()) return &again->second;
    const auto stored = constants.stored.find(name);
    if (stored == constants.stored.end() || stored->second.type.elements() > kLargestMask || !bytes.has(stored->second)) return nullptr;
    const Result<Tensor> tensor = bytes.read(stored->second);
    return tensor ? &(read[value] = literal_of(*tensor)) : nullptr;
  };
  left.clear();
  recognise_attention(graph, content, left);
  name_those_left(left, "what looks like attention, a softmax between two products,", "because it has a form that no pattern knows", LogLevel::warning);
}

}  // namespace meshwright::onnx
