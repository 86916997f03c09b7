// Statements as classes: a block that the model repeats ("transformer.h.0", ".1", ...) becomes a class of its own, one
// for all that are alike; the rest is the model's forward.
#pragma once

#include <string>
#include <vector>

#include "statements.h"

namespace meshwright::torch {

struct ModuleText {
  std::string text;                  // of all classes
  std::vector<std::string> unknown;  // blocks and ops that are to run again for their backward, and do not stand in a class
};

// `recomputed`: blocks whose forward runs again for their backward (torch.utils.checkpoint), and ops, which the statements tell of
// (prelude/again.py).
ModuleText module_text(const Forward& forward, const std::string& docstring, const std::vector<std::string>& recomputed);

}  // namespace meshwright::torch
