// What the stages of a pipeline hand to each other, as torch.distributed.pipelining does it: a rank gives what it holds to the rank at its place in
// the next stage, so a value that skips stages is handed on by those between, and its gradient comes back likewise.
//
// On its way a value lies as the stage that makes it has it, if the meshes of all stages that use it can say so: their axes may be others, and so may the atoms
// of its dimensions. Else as one of them wants it, else whole. What that takes in conversions each stage does for itself (forward.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/result.h"
#include "meshwright/shard.h"

namespace meshwright::torch {

struct Crossing {
  std::string value;  // its name in the model
  // How it lies on its way, on the mesh of this stage. Of what is handed on untouched: what one rank holds, as if that were whole.
  ShardedType type;
  bool handed_on = false;  // Sent as it was received; or received, and not used here.
};

struct StageEnds {
  std::vector<Crossing> received, sent;  // in the order of the model's values
};

// By stage. Inputs are those of the plan's stages, in their order.
std::vector<StageEnds> stage_ends(const PipelinePlan& pipeline, std::span<const BackendInput> stages);

// Whether each rank of one mesh holds the same elements as the rank at its place on the other, in the same order.
bool same_parts(const ShardedType& a, const Mesh& a_mesh, const ShardedType& b, const Mesh& b_mesh);

}  // namespace meshwright::torch
