#pragma once

#include "files/json.h"
#include "meshwright/memory_profile.h"

namespace meshwright::host {

// The profile of `program`, for scripts: docs/memory.md says what each key means. `account` is that of the plan whose
// program it is; null where there is no plan.
Json memory_json(const Program& program, const MemoryProfile& profile, const MemoryAccount* account = nullptr);

// As a plan's file has them (docs/plan-format.md).
Json account_json(const MemoryAccount& account);
Json overheads_json(const MemoryOverheads& overheads);

}  // namespace meshwright::host
