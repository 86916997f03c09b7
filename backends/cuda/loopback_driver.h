// All ranks of a plan on one GPU: a driver of as many devices as ranks, each of which is the first device of another
// driver. Streams and events are that one's. Where NCCL would move something between GPUs, the ranks meet on the host,
// and a copy or a kernel on one of their streams moves it, with events before and behind; so what is on a stream is
// ordered as NCCL orders it. Nothing of NCCL is called.
//
// For machines with fewer GPUs than a plan has ranks: the sums, the layouts and the order of what runs are those of the
// plan, its times are not.
#pragma once

#include <cstdint>
#include <memory>

#include "driver.h"
#include "meshwright/result.h"

namespace meshwright::cuda {

// As NCCL asks it of ranks of one process, each rank has a thread, and all ask for what a communicator does in the same
// order; unlike there, a rank's thread waits in the call until the others come to theirs, or until a communicator is
// aborted, which ends the run: then its device gets no more done.
// Errors: bad_input where there are more ranks than the kernel that combines them takes (kMaxLoopbackRanks).
Result<std::unique_ptr<Driver>> make_loopback_driver(std::unique_ptr<Driver> inner, std::int64_t ranks);

}  // namespace meshwright::cuda
