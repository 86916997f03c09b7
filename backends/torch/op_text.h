// One op on local tensors as a Python expression: in the form that a person writes where there is one, else as a call of
// its schema (torch.ops.aten.NAME).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright::torch {

using ValueText = std::function<std::string(ProgramValueId)>;

bool is_batch_norm(const std::string& op);

// Whether a node of a graph in training mode is another one in eval mode: dropout, and batch norm that has running statistics.
// It is written such that it follows the mode of its module.
bool follows_mode(const Node& node);

// `call` is local: its attributes are one rank's. Errors: bad_input, an op that depends on where a rank's part lies and
// that the prelude has no function for, or an op that only Meshwright has.
Result<std::string> op_text(const Instruction& call, const Program& program, const ValueText& value);

// What one rank executes of `whole` where that is several steps with communication between them: `steps` is what the op's
// family made of it. Errors: bad_input, as above.
Result<std::string> steps_text(const Instruction& whole, const std::vector<Instruction>& steps, const Program& program,
                               const ValueText& value);

// Whether such steps are ops of PyTorch without communication, which can be written down one after the other.
bool are_plain(const std::vector<Instruction>& steps);

}  // namespace meshwright::torch
