#include "memory_words.h"

#include "units.h"

namespace meshwright {

std::vector<std::pair<std::string, std::int64_t>> overhead_rows(const MemoryAccount& account) {
  const std::string communicators =
      account.communicators == 1 ? "1 communicator" : std::to_string(account.communicators) + " communicators";
  std::vector<std::pair<std::string, std::int64_t>> rows = {{"allocator's rounding", account.rounding_bytes},
                                                            {"fragmentation", account.fragmentation_bytes},
                                                            {"driver", account.driver_bytes},
                                                            {"context", account.context_bytes},
                                                            {"workspaces", account.workspace_bytes},
                                                            {communicators, account.communicator_bytes},
                                                            {"reserved by the cluster file", account.reserved_bytes}};
  std::erase_if(rows, [](const auto& row) { return row.second == 0; });
  return rows;
}

std::string overheads_text(const MemoryAccount& account) {
  std::string text;
  for (const auto& [name, bytes] : overhead_rows(account))
    text += (text.empty() ? "" : ", ") + name + " " + size_text(bytes);
  return text;
}

}  // namespace meshwright
