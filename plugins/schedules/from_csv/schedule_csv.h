// Schedules in the CSV format of PyTorch's torch.distributed.pipelining: a line for each stage (rank), the first one
// for stage 0, and on it the stage's events in their order, with commas between them.
//
//   0F0,0F1,,0B0,0B1          position (PyTorch's stage index), kind, microbatch
//   ,1F0,1B0,1F1,1I1,1W1      F forward, B backward, I its input gradient, W its weight gradient
//   (0F4;3B1)OVERLAP_F_B      a forward beside a backward: two events, one behind the other
//
// A cell without text is idle time, and is skipped: when an event runs follows from what it waits for. So do
// communication and the gathering of parameters: cells such as 0SEND_F0, 1RECV_F0, 0WAIT_SEND_F0 (with a microbatch),
// 0UNSHARD, 0RESHARD, 0REDUCE_GRAD, 0WAIT_REDUCE_GRAD (without one) must be well-formed, and are skipped. A cell may
// stand in quotes; empty lines at the end are skipped. Every stage holds the same number of positions, its chunks in
// ascending order.
#pragma once

#include <string>
#include <string_view>

#include "meshwright/schedule.h"

namespace meshwright {

// The schedule, validated. `where` begins each error's sentence. Errors: bad_input, with line and column (the number of
// the cell) where there is one, or with the stage and the event.
Result<PipelineSchedule> read_schedule_csv(std::string_view text, const std::string& where);

}  // namespace meshwright
