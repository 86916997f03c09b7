// Where the processes of a world meet: in rank 0's process, on a thread of its own. It waits until all have come, hands
// around what they give each other, and is the first to know that one of them has gone: then it tells all others, with
// its name, and they end.
//
// Whoever reaches its port can take a rank's place while ranks are missing: it is meant for the network of a cluster,
// as PyTorch's store is.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

class Hub {
 public:
  // Listens: on this machine alone where the address is "localhost" or one of a loopback, else on all its interfaces.
  // Errors: bad_input, of a port that is in use.
  static Result<std::unique_ptr<Hub>> open(const std::string& address, std::uint16_t port, int ranks,
                                           std::chrono::seconds arrival);
  // Waits until all have left, or a few seconds.
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // The same: false, if some have not left by then.
  bool wait_until_left();

  class Room;

 private:
  explicit Hub(std::unique_ptr<Room> room);
  std::unique_ptr<Room> room_;
};

// "rank 3", "ranks 3, 5 and 7"; of many the first ones and how many there are.
std::string names_of_ranks(const std::vector<int>& ranks);

}  // namespace meshwright
