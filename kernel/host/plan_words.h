// The words that a plan file has for enumerators; the kernel names the other ones itself.
#pragma once

#include <string_view>

#include "meshwright/graph.h"
#include "meshwright/strategy.h"
#include "meshwright/training.h"

namespace meshwright::host {

std::string_view word(SourceKind kind);
std::string_view word(OutputKind kind);
std::string_view word(VariableKind kind);
std::string_view word(Optimizer optimizer);
std::string_view word(ZeroStage stage);

}  // namespace meshwright::host
