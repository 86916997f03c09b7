// One op as a Python expression: what its emitter makes of it, else a call of its schema (torch.ops.aten.NAME).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "meshwright/op_emitter.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright::torch {

using ValueText = std::function<std::string(ProgramValueId)>;

// `call` is local: its attributes are one rank's. Or it is whole, and one rank executes `steps` in its place, with communication
// between them. Errors: the emitter's; bad_input, an op that depends on where a rank's part lies or that takes several steps,
// and of which no emitter knows that, or one that only Meshwright has.
Result<EmittedOp> op_text(const Instruction& call, const std::vector<Instruction>& steps, const Program& program, const ValueText& value,
                          const EmitterTable* emitters);

// Whether steps are ops without communication, each of which can be written down by itself.
bool are_plain(const std::vector<Instruction>& steps, const EmitterTable* emitters);

}  // namespace meshwright::torch
