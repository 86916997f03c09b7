// The statements that make a module's parameters, buffers and inner modules.
#pragma once

#include <string>
#include <vector>

#include "statements.h"

namespace meshwright::torch {

// A run of statements that becomes a class.
struct Block {
  std::string prefix;
  std::size_t begin = 0, end = 0;
  std::vector<ProgramValueId> arguments, results;
  std::string class_name;
};

// Those of __init__ for what lies under `prefix` ("": the model, whose blocks are modules of their own classes).
std::string members_text(const std::vector<Member>& members, const std::vector<Block>& blocks, const std::string& prefix);

}  // namespace meshwright::torch
