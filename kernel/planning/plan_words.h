// The words that a plan file has for enumerators (the kernel names the other ones itself), and those for what a variable does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/plan.h"
#include "meshwright/strategy.h"
#include "meshwright/training.h"

namespace meshwright {

std::string_view word(SourceKind kind);
std::string_view word(OutputKind kind);
std::string_view word(VariableKind kind);
std::string_view word(Optimizer optimizer);
std::string_view word(ZeroStage stage);
std::string_view word(CostCoefficient coefficient);

// What a variable does, for a reader: "b, k.1", "[S0 R]R from S01, ZeRO-3, prefetched".
std::string choice_text(const ModelAnalysis& model, const PlannedVariable& variable);
// What a node does along each mesh axis: "b", "k.1", "repeat".
std::vector<std::string> axes_text(const ModelAnalysis& model, const PlannedNode& node);

}  // namespace meshwright
