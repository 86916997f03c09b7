// Wholes that a file holds in pieces, because its opset has no op for them or its exporter took them apart. Each pattern
// looks at the graph that the translation made, writes the whole in place of its last piece, and leaves the other pieces to
// drop_unused. What looks like a whole and is not recognised stays as it is, and is named in a warning.
#pragma once

#include <string>

#include "../constants.h"
#include "../graph_edit.h"
#include "meshwright/graph.h"

namespace meshwright::onnx {

struct PatternSettings {
  std::int64_t opset = 0;
  std::string producer;     // "pytorch"
  std::string wanted = "auto";  // auto, all, none
};

void apply_patterns(Graph& graph, const Constants& constants, const PatternSettings& settings);

// Each gives how many it recognised.
int recognise_bias(Graph& graph);  // a product and an addition of one number for each column: linear or addmm

}  // namespace meshwright::onnx
