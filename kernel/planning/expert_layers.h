// The layers of experts of a model, and whether experts can lie apart at all ([search] expert_axes, [inter.manual] ep).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/config.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"

namespace meshwright {

// An op that sends each token to some of its experts (Exchange in rule.h).
struct ExpertLayer {
  std::string name;          // of its node
  std::int64_t experts = 1;  // in all
};

// In the order of the graph. Experts that stay in pieces (FoundComposites in op.h) are none.
std::vector<ExpertLayer> expert_layers(const ModelAnalysis& model);

// Errors: bad_input where "expert_axes" in [search] names an axis, and the model has no layer of experts.
Status check_expert_axes(const ModelAnalysis& model, const Config& search);

}  // namespace meshwright
