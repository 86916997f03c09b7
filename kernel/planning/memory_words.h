// What a device's memory holds, as people read it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/memory_account.h"

namespace meshwright {

// What is there besides the tensors of the program, by name, with its bytes; nothing of what is none.
std::vector<std::pair<std::string, std::int64_t>> overhead_rows(const MemoryAccount& account);

// "driver 870 MiB, context 512 MiB, 2 communicators 1.34 GiB"; "" if there is nothing.
std::string overheads_text(const MemoryAccount& account);

}  // namespace meshwright
