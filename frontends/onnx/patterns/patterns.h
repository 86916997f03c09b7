// Wholes that a file holds in pieces, because its opset has no op for them or its exporter took them apart. Each
// pattern looks at the graph that the translation made, writes the whole in place of its last piece, and leaves the
// other pieces to drop_unused. What looks like a whole and is not recognised stays as it is, and is named in a warning.
#pragma once

#include <functional>
#include <string>

#include "../constants.h"
#include "../graph_edit.h"
#include "meshwright/graph.h"

namespace meshwright::onnx {

struct PatternSettings {
  std::int64_t opset = 0;
  std::string producer;         // "pytorch"
  std::string wanted = "auto";  // auto: of PyTorch's files only what its exporters take apart; all; none
};

void apply_patterns(Graph& graph, const Constants& constants, const StoredBytes& bytes,
                    const PatternSettings& settings);

// The elements of a value that the file holds, or null.
using Content = std::function<const Literal*(ValueId)>;

// Multiplications and divisions by one number that the file computes from constants become those by that number: an
// exporter writes the root of a scale as ops on tensors of one element. `content`: of numbers that are not trained.
void settle_scalars(Graph& graph, const Content& content);

// Each gives how many it recognised. Linear: a product with a weight that is turned on the way.
int recognise_linear(Graph& graph);

// Linear or addmm: a product, and the addition of one number for each column.
int recognise_bias(Graph& graph);

// Both forms of gelu; the second leaves the tanh form alone where the model's author wrote it, not an exporter.
int recognise_gelu(Graph& graph);
int recognise_exported_gelu(Graph& graph);

int recognise_silu(Graph& graph);
int recognise_layer_norm(Graph& graph);
int recognise_rms_norm(Graph& graph);

// softmax(Q Kᵀ · scale + mask) V; the mask may be added, or what it hides may be overwritten. A constant mask that
// hides exactly the positions behind each query becomes `is_causal`. `left` names softmaxes between two products that
// were not recognised.
int recognise_attention(Graph& graph, const Content& content, std::vector<std::string>& left);

}  // namespace meshwright::onnx
