// The forward of a finished program, as autograd runs it: a gradient goes back the way that its value came. What is computed and
// how values travel stands in the program's instructions; how gradients lie, and how they travel, in the plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/conversion.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "stage_ends.h"

namespace meshwright::torch {

// A parameter in the layout in which it is computed with, and its gradient back to ProgramParameter::reduced.
struct Load {
  std::string node;  // whose part of the forward it is
  std::uint32_t parameter = kNoId;
  ProgramValueId result = kNoId;
  std::vector<Move> moves, back;
};

// A value in another layout, and its gradient back from there. One of both may stay where it is.
struct Conversion {
  std::string node;  // whose part of the forward it is
  ProgramValueId from = kNoId, result = kNoId;
  std::vector<Move> moves, back;
  bool settles = false;  // where all its users take it from, and where it is kept for what runs again for the backward
  std::string again = {};  // the node before whose backward it runs again, alone (Recomputation::converted_again); "" for none
};

// An op, and what one rank executes of it.
struct Call {
  Instruction whole;
  std::vector<Instruction> steps;
};

struct ForwardProgram {
  Program program;  // values, parameters, and the inputs and outputs of one microbatch; no instructions
  std::vector<std::optional<Layout>> gradients;  // by value: how the gradient lies that autograd yields, if it has one
  std::vector<std::variant<Load, Conversion, Call>> steps;
  std::vector<ProgramValueId> received, sent;  // of a stage: its ends (stage_ends.h), as they lie on their way

  // Adds a value without a gradient.
  ProgramValueId add(std::string name, ShardedType type);
  // The type of the gradient of a value that has one.
  [[nodiscard]] ShardedType gradient_of(ProgramValueId value) const;
};

// `ends`: null where the plan is no stage of a pipeline. Errors: bad_input, a program whose forward is not one of the plan's: autograd
// could not take its gradients back.
Result<ForwardProgram> forward_of(const BackendInput& input, const StageEnds* ends = nullptr);

}  // namespace meshwright::torch
