// A plan's forward as a list of Python statements, in order, and what they need around them: parameters, buffers, inputs.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "marks.h"
#include "meshwright/backend.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "prelude.h"
#include "stage_ends.h"

namespace meshwright::torch {

struct Statement {
  std::string module;                   // whose part of the forward this is: "transformer.h.0.attn"
  std::vector<ProgramValueId> results;  // kNoId: nobody reads it
  std::string text;                     // with marks
  bool draws = false;                   // random numbers
  bool converts = false;                // takes a value to another layout, and does nothing else
  bool settles = false;                 // Conversion::settles
  bool loads = false;                   // a parameter, and does nothing else
  std::string node = {};                // of the forward graph, if it is an op; an operand of one, if that is converted again
  NodeId again = kNoId;                 // of a single op that runs again for its backward: Recomputation::begin; of what is converted again the op before whose it is
};

struct Member {
  std::string path;  // "transformer.wte.weight"
  std::string text;  // of the expression that makes it
  bool buffer = false;
};

struct Forward {
  Program program;  // whose values the statements are about
  std::vector<Statement> statements;
  std::vector<Member> members;                              // parameters and buffers, in the model's order
  std::vector<std::pair<std::string, std::string>> tied;    // another name, and the one that stands for it
  std::vector<std::pair<std::string, ProgramValueId>> inputs;
  std::vector<ProgramValueId> received;                     // of a stage: arguments before the inputs; what it sends is behind the outputs
  std::vector<std::pair<std::string, std::string>> input_layouts, output_layouts;  // name and layout, in order
  std::vector<std::string> outputs;                         // texts with marks
  std::int64_t microbatches = 1;                            // of a step; the statements compute one
  Prelude prelude;                                          // what the texts may mention
  std::set<ProgramValueId> made_again;  // by single ops that run again, or conversions that do, and not kept
  std::set<ProgramValueId> saved;       // operands that ops save which do not run again
  std::string base = "Planned";         // what the model's class is derived from
  std::string settings;                 // more members of the model's class
  bool draws = false;                   // Other stages draw random numbers.
};

// The name that the model has for an input, a parameter or a buffer: the first, where it has several.
std::string source_name(const Graph& graph, const Source& source);

// Errors: bad_input, an op that can't be written as PyTorch, or emitters whose preludes do not go together.
Result<Forward> forward_statements(const BackendInput& input, const StageEnds* ends = nullptr);

}  // namespace meshwright::torch
