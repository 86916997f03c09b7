// Runs a graph on one device, node by node, with what op families say that their ops mean. Slow and plain: the truth
// that everything else is compared with.
#pragma once

#include <map>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

// The values of the graph, by id, from those of its sources. Errors: bad_input if a source is missing or an op has no
// family; a family's own.
MESHWRIGHT_API Result<std::vector<Tensor>> interpret(const Graph& graph, const OpTable& ops,
                                                     const std::map<ValueId, Tensor>& sources);

}  // namespace meshwright
