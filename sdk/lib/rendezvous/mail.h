// Letters between processes: in order between any two on one channel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace meshwright {

// Thread-safe.
class Mail {
 public:
  struct Letter {
    int from = 0;
    std::string bytes;
  };

  virtual ~Mail() = default;
  [[nodiscard]] virtual int own_rank() const = 0;
  // Does not wait. `to`: another rank.
  virtual void post(int to, std::uint64_t channel, std::string bytes) = 0;
  // The first letter that is there, from this rank or from any; nothing: none is there yet.
  virtual std::optional<std::string> take(int from, std::uint64_t channel) = 0;
  virtual std::optional<Letter> take(std::uint64_t channel) = 0;
};

}  // namespace meshwright
