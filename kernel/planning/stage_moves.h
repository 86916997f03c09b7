// What one stage of a pipeline could leave to the stage before it or behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/model_analysis.h"

namespace meshwright {

// A cut into stages, by node of the graph.
struct StageCut {
  const std::vector<bool>& bound;             // is in one stage, since it depends on parameters
  const std::vector<double>& seconds;         // of one device
  const std::vector<std::uint32_t>& stage_of; // of those that are bound
};

struct StageMove {
  std::string module;                   // "transformer.h.6"
  std::vector<std::uint32_t> stage_of;  // afterwards
};

// Moves the block at that end of a stage, and what of the stage lies beyond it. Where the stage has no block, or would be left with little, it is a module
// within: the largest that leaves the stage a third of its work, or else the smallest that there is. Nothing if the stage would be left with nothing.
std::optional<StageMove> move_between_stages(const ModelAnalysis& model, const StageCut& cut, std::uint32_t from, std::uint32_t to);

}  // namespace meshwright
