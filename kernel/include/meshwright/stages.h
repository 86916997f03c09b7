// The stages of a pipeline: parts of a model on groups of devices, each of which has a plan and a program as a
// whole model has (plan.h, program.h). What a stage receives from others is a source of its graph (SourceKind::received), what it sends
// an output (OutputKind::sent); the gradients go the other way. All that joins stages is found here: what they must agree on, and
// in which order their programs can run together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/plan.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/step_order.h"

namespace meshwright {

// Of parameters that several stages have: before the update the first of these stages gets the gradients of all others, adds
// them up in the order of the stages, and gives the sum to them, so that all take the same step. `program` is that of one stage, after its passes.
MESHWRIGHT_API void exchange_shared_gradients(const StagePart& part, Program& program);

// That the programs of all stages, in their order, fit together: each message that is sent is received by the stage that it goes to, and each one
// that is received is sent, once, in the same phase, of the same type. Errors: bad_input that names the message and the stages.
MESHWRIGHT_API Status validate_stages(std::span<const Program> programs);

// By stage, which group of devices has it. Errors: bad_input for orders that leave a stage out, or give it to several groups or to one that does not exist.
MESHWRIGHT_API Result<std::vector<std::uint32_t>> groups_of_stages(const GroupOrders& orders, std::size_t stages);

// Of stages with devices of their own: the same orders, written down.
MESHWRIGHT_API GroupOrders orders_of_own(std::span<const Program> programs);

// By stage, of each occurrence of its step its place in an order of all: ascending.
using JointOrder = std::vector<std::vector<std::size_t>>;

// An order of all in which nothing is received before it was sent, and each group of devices runs what `orders` says. The same
// programs give the same order. Errors: those of validate_stages and of groups_of_stages; bad_input if `orders` is not that of the programs, and if the stages
// wait for each other for ever, naming what each waits for.
MESHWRIGHT_API Result<JointOrder> joint_order(std::span<const Program> programs, const GroupOrders& orders = {});

// What a device of each group holds at most, of all of its stages together, in bytes. Those of a group take turns in `places`.
MESHWRIGHT_API std::vector<std::int64_t> peaks_of_groups(std::span<const Program> programs, const JointOrder& places, std::span<const std::uint32_t> groups);

}  // namespace meshwright
