// Processes that meet at rank 0's over TCP (hub.h): a ProcessWorld without MPI.
//
// A thread of its own watches the connection, whatever this process does meanwhile, inside of a library's call too.
// When the world ends with an error, or rank 0 has gone, that thread says so and ends this process with the error's
// code.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launched.h"
#include "mail.h"
#include "process_world.h"

namespace meshwright {

class TcpWorld final : public ProcessWorld, public Mail {
 public:
  struct Options {
    std::chrono::seconds arrival{120};  // in which all ranks have to come
    std::string speaker;                // who says why the process ends: a plugin's id
  };

  // Returns when all ranks have come; rank 0's opens the hub. A rank that does not come ends all.
  // Errors: bad_input, of a port that is in use, an address that nobody knows, a rank that is there already; and
  // plugin_failed, where rank 0 does not come, or something else answers.
  static Result<std::unique_ptr<TcpWorld>> join(const Launched& launched, Options options);
  // Every process leaves, and waits for the others; with an exception under way it ends them.
  ~TcpWorld() override;
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  [[nodiscard]] int rank() const override;
  [[nodiscard]] int size() const override;
  std::vector<std::string> exchange(std::string_view name, std::string_view own) override;
  void announce(std::string_view name) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void share(std::span<const std::span<std::byte>> parts, int first) override;
  [[noreturn]] void end_all(const Error& error) const override;

  [[nodiscard]] int own_rank() const override { return rank(); }
  void post(int to, std::uint64_t channel, std::string bytes) override;
  std::optional<std::string> take(int from, std::uint64_t channel) override;
  std::optional<Letter> take(std::uint64_t channel) override;

  class Link;

 private:
  explicit TcpWorld(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_;
};

}  // namespace meshwright
