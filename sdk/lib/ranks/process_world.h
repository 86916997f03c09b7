// Processes that a launcher started together, to run one program with a rank in each: what they tell each other besides
// what the program moves. Each process calls the same in the same order, and waits until all have called it; a process
// that can't go on ends all, so that none waits for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

// Used by one thread.
class ProcessWorld {
 public:
  virtual ~ProcessWorld() = default;

  [[nodiscard]] virtual int rank() const = 0;  // of this process, from 0
  [[nodiscard]] virtual int size() const = 0;

  // What each gives, by process. `name`, of at most 32 bytes, says for what, alike on all.
  virtual std::vector<std::string> exchange(std::string_view name, std::string_view own) = 0;
  // Which exchange comes next on this process, long before it does: so that one which is elsewhere is found out.
  virtual void announce(std::string_view /*name*/) {}
  // What `root` has, on all alike; of as many bytes on each.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  // What each of the processes from `first` on has, this one among them, which alone call it: `parts` by process, all
  // of one size; this one's is given, the others' are filled.
  virtual void share(std::span<const std::span<std::byte>> parts, int first) = 0;

  // By exchanges. Of agree: the error of the lowest process that has one, on all alike.
  Status agree(const Status& mine);
  std::int64_t largest(std::int64_t number);

  // Says why and ends all processes, with the error's code.
  [[noreturn]] virtual void end_all(const Error& error) const = 0;
};

// What an exchange of this name has of each: a byte of an error's code, 0 where there is none, and its message.
inline constexpr std::string_view kAgreement = "agreement";
std::string packed_status(const Status& status);
Status parse_status(std::string_view content);
// Of a number that another process gave; one that is no code is `internal`.
ErrorCode error_code_of(std::uint64_t number);

}  // namespace meshwright
