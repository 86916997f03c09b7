#include "process_world.h"

#include <algorithm>
#include <cstring>

namespace meshwright {

// What was given wrong to one process alone is looked for there.
Status ProcessWorld::agree(const Status& mine) {
  const std::vector<std::string> all = exchange(kAgreement, packed_status(mine));
  for (std::size_t process = 0; process < all.size(); ++process) {
    const Status status = parse_status(all[process]);
    if (status) continue;
    const bool is_named = process > 0 && status.error().code == ErrorCode::bad_input;
    return is_named ? add_context("rank " + std::to_string(process), status.error()) : status.error();
  }
  return Done{};
}

std::int64_t ProcessWorld::largest(std::int64_t number) {
  std::int64_t most = number;
  for (const std::string& one : exchange("largest", {reinterpret_cast<const char*>(&number), sizeof number})) {
    std::int64_t other = number;
    std::memcpy(&other, one.data(), std::min(one.size(), sizeof other));
    most = std::max(most, other);
  }
  return most;
}

std::string packed_status(const Status& status) {
  if (status) return std::string(1, '\0');
  return static_cast<char>(status.error().code) + status.error().message;
}

Status parse_status(std::string_view content) {
  if (content.empty() || content.front() == 0) return Done{};
  return Error{error_code_of(static_cast<unsigned char>(content.front())), std::string(content.substr(1))};
}

ErrorCode error_code_of(std::uint64_t number) {
  return number >= 1 && number <= 4 ? static_cast<ErrorCode>(number) : ErrorCode::internal;
}

}  // namespace meshwright
