// Holds a node against what PyTorch says of its op. Every graph passes here once, where it enters (validate in
// graph.h), so that rules, gradients and `evaluate` of op families may assume it.
#pragma once

#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright::aten {

// Ids of the node's values are in range, and their types are sane. An op that PyTorch's vocabulary (schemas.inc) does
// not have passes: of it nothing is known, and its family checks it. Errors: bad_input, one sentence without the node's
// name: operands that are missing, too many or in another order, arguments of another kind, dtypes that do not go
// together, results whose shape is not the one inferred.
Status check_call(const Graph& graph, const Node& node);

}  // namespace meshwright::aten
