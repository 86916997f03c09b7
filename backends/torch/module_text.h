// Statements as classes: a block that the model repeats ("transformer.h.0", ".1", ...) becomes a class of its own, one
// for all that are alike; the rest is the model's forward.
#pragma once

#include <string>
#include <vector>

#include "statements.h"

namespace meshwright::torch {

struct ModuleText {
  std::string text;                  // of all classes
  std::vector<std::string> unknown;  // of `recomputed`: what is no block of the model
};

// `recomputed`: blocks whose forward runs again for their backward (torch.utils.checkpoint).
ModuleText module_text(const Forward& forward, const std::string& docstring, const std::vector<std::string>& recomputed);

}  // namespace meshwright::torch
