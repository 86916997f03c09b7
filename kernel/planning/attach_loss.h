// A loss for a model that has none: what `[model] loss` asks for. Graph to graph, after any frontend.
#pragma once

#include <string>

#include "meshwright/config.h"
#include "meshwright/graph.h"

namespace meshwright {

struct LossSettings {
  std::string loss = "none";  // none, cross_entropy, mse
  std::string output;         // the name of the output that it is of; "": the first floating-point one
  bool shift = false;         // position i predicts label i + 1, as causal language models are trained
};

LossSettings loss_settings(const Config& model);

// Makes the loss the graph's output in place of its user outputs, and drops what only they needed. A new user input
// takes what the model is held against:
//   cross_entropy  `labels`, int64, in the output's shape without its last dimension, the classes; -100 is ignored. The
//   logits
//                  are computed in float32, flattened to [positions, classes], and the mean is over the positions that
//                  count
//   mse            `targets`, in the output's shape and type
// Errors: bad_input: a graph that has a loss, an output that is not there or has no gradient, labels that can't be
// shifted.
Status attach_loss(Graph& graph, const LossSettings& settings);

}  // namespace meshwright
