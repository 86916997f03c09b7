// Which of the tensors that a file holds are trained. ONNX does not say; PyTorch's state_dict did.
#pragma once

#include "constants.h"
#include "meshwright/graph.h"

namespace meshwright::onnx {

// Makes every source that is no user input a parameter, a buffer or a constant, and marks what has a gradient:
//   - integers and booleans are constants;
//   - the running statistics of a batch normalization are buffers;
//   - what is computed while reading, or held by a Constant node, is a constant, unless it is the weight of a product
//   or a
//     convolution;
//   - what is added to attention's scores alike for all heads is a mask, and a constant; a bias that differs between
//   heads is trained;
//   - a single element is trained only under a name that a person gave it;
//   - a name that an exporter made up is that of a parameter where it is a weight, a bias, or added to activations (a
//   folded
//     table of positions), and of a constant elsewhere (a folded rotary table);
//   - all else is a parameter.
void classify_sources(Graph& graph, const Constants& constants);

}  // namespace meshwright::onnx
