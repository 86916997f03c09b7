// A model as a line of units, the shortest parts that could be a stage of a pipeline, and of how many kinds they are: the halves of eighty equal blocks are of two. And the
// model with few of its blocks, in which each kind is there: what a unit takes can be measured there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/planning_context.h"
#include "meshwright/result.h"

namespace meshwright {

struct ModelUnit {
  NodeId begin = 0, end = 0;          // nodes of the graph
  std::uint32_t kind = 0;             // units that compute the same on the same types are of one kind
  std::int64_t crossing_bytes = 0;    // of what crosses behind it, whole
};

struct ModelUnits {
  std::vector<ModelUnit> units;       // along the graph; all of it
  std::vector<bool> bound;            // by node: depends on parameters, so that it is in one stage
  std::vector<double> seconds;        // by node, forward and backward, by the clock of one device
  std::uint32_t kinds = 0;
};

// Errors: those of serial_plan.
Result<ModelUnits> model_units(const PlanningContext& context);

// By node of a graph the unit that it counts for: its own, or of what no parameter goes into that of the first who asks for it.
std::vector<std::uint32_t> unit_of_nodes(const Graph& graph, const ModelUnits& units);

// A model with few of its blocks, whose units have the kinds that they have in the whole.
struct ShortModel {
  Graph graph;
  ModelUnits units;
};

// All of it where a kind would be missing. Errors: those of analyze_model and of model_units.
Result<ShortModel> short_model(const PlanningContext& context, const ModelUnits& whole);

// By node of the whole model the one of the short one that computes the same: of a kind the first unit is as the first one there, and all others are as the last. kNoId of what no parameter goes into.
std::vector<NodeId> alike_nodes(const ModelUnits& whole, const ShortModel& shorter);

// By name of a node of the whole model, or of a value that such nodes take or make, that of the short one. A node and its only result may have one name: so have those that are alike.
using AlikeNames = std::unordered_map<std::string, std::string>;
AlikeNames alike_names(const Graph& whole, const Graph& shorter, const std::vector<NodeId>& nodes);

}  // namespace meshwright
