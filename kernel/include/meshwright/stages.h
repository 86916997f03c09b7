// The stages of a pipeline: parts of a model on groups of devices of their own, each of which has a plan and a program as a
// whole model has (plan.h, program.h). What a stage receives from others is a source of its graph (SourceKind::received), what it sends
// an output (OutputKind::sent); the gradients go the other way. All that joins stages is found here: what they must agree on, and
// in which order their programs can run together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"

namespace meshwright {

// Of parameters that several stages have: before the update the first of these stages gets the gradients of all others, adds
// them up in the order of the stages, and gives the sum to them, so that all take the same step. `program` is that of one stage, after its passes.
MESHWRIGHT_API void exchange_shared_gradients(const StagePart& part, Program& program);

// That the programs of all stages, in their order, fit together: each message that is sent is received by the stage that it goes to, and each one
// that is received is sent, once, in the same phase, of the same type. Errors: bad_input that names the message and the stages.
MESHWRIGHT_API Status validate_stages(std::span<const Program> programs);

// Where each occurrence of each stage's step stands in one order of all, in which nothing is received before it was sent: by stage, ascending. The same
// programs give the same order. Errors: those of validate_stages; bad_input if the stages wait for each other for ever,
// naming what each waits for.
MESHWRIGHT_API Result<std::vector<std::vector<std::size_t>>> joint_order(std::span<const Program> programs);

}  // namespace meshwright
