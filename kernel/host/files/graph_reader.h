// The graph inside a plan file.
#pragma once

#include "files/json_place.h"
#include "meshwright/graph.h"

namespace meshwright::host {

// A graph whose ids are in range; problems go to the place, and the graph is then worth nothing. Not yet validated.
Graph read_graph(const JsonPlace& place);

}  // namespace meshwright::host
