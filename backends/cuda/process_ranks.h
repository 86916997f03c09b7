// A program's ranks as processes, each with one GPU: what they take steps with. Values move by NCCL alone.
#pragma once

#include <memory>

#include "process_runtime.h"
#include "rank.h"

namespace meshwright::cuda {

// `world` outlives it. `make_rank` makes the one of this process.
std::unique_ptr<Runtime> make_gpu_runtime(ProcessWorld& world, MakeRank make_rank);

}  // namespace meshwright::cuda
