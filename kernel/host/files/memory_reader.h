// What a plan's file says of memory besides the peak of its program.
#pragma once

#include "files/json_place.h"
#include "meshwright/memory_account.h"

namespace meshwright::host {

MemoryOverheads read_overheads(const JsonPlace& place);

// An account whose parts add up to its total, and whose program holds `peak_bytes`; else a problem.
MemoryAccount read_account(const JsonPlace& place, std::int64_t peak_bytes);

}  // namespace meshwright::host
