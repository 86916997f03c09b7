// This process' connection to the hub, and what has come over it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "hub.h"
#include "tcp_world.h"
#include "wire.h"

namespace meshwright {

class TcpWorld::Link {
 public:
  Link(const Launched& launched, Options options) : launched_(launched), options_(std::move(options)) {}
  ~Link();

  // Errors: as TcpWorld::join.
  Status join();
  // Returns when all have left.
  void leave();

  // Thread-safe, but for `exchange`, which one thread calls.
  void send(Frame frame) const;
  // What the hub gives for what this rank has given.
  std::string exchange(Frame frame);
  // Until this process is ended by the thread that watches, or by this one after a while.
  [[noreturn]] void wait_for_end(const Error& error) const;
  std::optional<std::string> take(int from, std::uint64_t channel);
  std::optional<Mail::Letter> take(std::uint64_t channel);

  [[nodiscard]] const Launched& launched() const { return launched_; }

 private:
  Status connect(std::chrono::steady_clock::time_point last);
  // Of one try; what is wrong, "": nothing.
  std::string try_to_connect(const std::string& address, std::chrono::steady_clock::time_point last);
  void watch();
  void stop_watching();

  // On the thread that watches:
  void hear(Frame frame);
  void lose(const std::string& why);
  void tick();
  // Says why, and waits until all have.
  void end(const Error& error);
  [[noreturn]] void exit() const;
  void say(const Error& error) const;
  [[nodiscard]] std::string place() const { return launched_.address + ":" + std::to_string(launched_.port); }

  const Launched launched_;
  const Options options_;
  std::unique_ptr<Hub> hub_;  // rank 0's

  mutable boost::asio::io_context io_;
  boost::asio::steady_timer timer_{io_};
  std::shared_ptr<Wire> wire_;
  std::optional<Error> ended_;
  std::chrono::steady_clock::time_point ended_at_;
  std::thread thread_;

  mutable std::mutex mutex_;  // of all that follows
  mutable std::condition_variable changed_;
  bool is_welcome_ = false, has_left_ = false;
  std::optional<Error> refused_;         // while it joins
  std::optional<std::string> why_lost_;  // likewise
  std::optional<std::string> given_;
  std::map<std::uint64_t, std::map<int, std::deque<std::string>>> letters_;  // by channel and sender
};

}  // namespace meshwright
