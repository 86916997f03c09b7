// A recording driver's communicators between processes: each rank's part of a collective goes to the others as letters,
// as soon as its stream has come there, so that no order in which streams run keeps others waiting for ever.
#pragma once

#include "driver.h"
#include "mail.h"
#include "recorded_streams.h"

namespace meshwright::cuda {

// As ncclUniqueId it says where the ranks meet: at the process that made it.
UniqueId make_far_id(const Mail& mail, std::uint64_t number);
// Waits until all ranks of a communicator have come, as ncclCommInitRank does. False: it is no such id, or a rank came
// twice.
bool meet_far(RecordedGroup& group, Mail& mail, const UniqueId& id, int ranks, int rank);

// Sends this rank's part of a collective, of sends and receives, the first time that it is asked. True: all that it
// needs of others is here.
bool have_come(Job& job);
// Puts it where it belongs. False: they were asked for different things.
bool take_from_far(const Job& job);

}  // namespace meshwright::cuda
