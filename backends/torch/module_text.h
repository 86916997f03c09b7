// Statements as classes: a block that the model repeats ("transformer.h.0", ".1", ...) becomes a class of its own, one
// for all that are alike; the rest is the model's forward.
#pragma once

#include <string>
#include <vector>

#include "statements.h"

namespace meshwright::torch {

struct ModuleOptions {
  // Modules whose blocks are recomputed in the backward (torch.utils.checkpoint): a block's path, or the beginning of it.
  std::vector<std::string> checkpoint;
};

struct ModuleText {
  std::string text;                  // of all classes
  std::vector<std::string> unknown;  // of ModuleOptions::checkpoint: what is no block of the model
};

ModuleText module_text(const Forward& forward, const std::string& docstring, const ModuleOptions& options);

}  // namespace meshwright::torch
