#pragma once

#include "files/json.h"
#include "meshwright/memory_profile.h"

namespace meshwright::host {

// The profile of `program`, for scripts: docs/memory.md says what each key means.
Json memory_json(const Program& program, const MemoryProfile& profile);

}  // namespace meshwright::host
