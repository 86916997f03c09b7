// Turns a case into a graph with a loss, and opens the op families as the program does.
#pragma once

#include <map>
#include <memory>

#include "meshwright/interpret.h"
#include "meshwright/training_graph.h"
#include "op_case.h"
#include "plugin_host.h"

namespace meshwright::test {

Result<host::PluginHost> open_host(std::vector<std::string> overrides = {});
std::unique_ptr<OpTable> open_ops();

// The case with a loss: Σ over differentiable results of Σ elements × weights. The weights are added to `sources`.
Graph with_loss(const OpCase& op_case, std::map<ValueId, Tensor>& sources);

// The weights of a result in that loss; kNoId if it is not differentiable.
ValueId weights_of(const Graph& graph, ValueId result);

}  // namespace meshwright::test
