// Where the line of a model's ops can be cut into stages: nothing crosses there that has no gradient, and no more than at the places beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/model_analysis.h"

namespace meshwright {

struct CutPlace {
  NodeId node = 0;         // the cut is before it
  std::int64_t bytes = 0;  // of the values that cross, whole; their gradients are as many
};

// Ascending, without the model's begin and end. `depends`: by value, whether it is a parameter or made of one (depends_on_parameters): all else crosses nothing.
std::vector<CutPlace> cut_places(const ModelAnalysis& model, const std::vector<bool>& depends);

}  // namespace meshwright
