// Ends a run that hangs: in a call that never returns, a collective to which a rank does not come, a kernel without
// end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "meshwright/result.h"

namespace meshwright::cuda {

// Looks at what is under way, on a thread of its own. Thread-safe.
class Watchdog {
 public:
  // "rank 3 is at instruction 12": called on the watchdog's thread.
  using Describe = std::function<std::string()>;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Clock::time_point since;
    Describe describe;
  };

 public:
  // `limit`: for each thing that is watched; 0: nothing is. `end` is called once, on the watchdog's thread, with an
  // error (plugin_failed) that says all that is under way then; but in tests it ends the process.
  Watchdog(std::chrono::milliseconds limit, std::function<void(const Error&)> end);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Something under way, until this is destroyed. The watchdog outlives it.
  class Watch {
   public:
    Watch(Watchdog& by, std::list<Entry>::iterator entry) : by_(&by), entry_(entry) {}
    Watch(Watch&& other) noexcept : by_(std::exchange(other.by_, nullptr)), entry_(other.entry_) {}
    Watch& operator=(Watch&&) = delete;
    ~Watch() {
      if (by_ != nullptr) by_->forget(entry_);
    }

   private:
    Watchdog* by_;
    std::list<Entry>::iterator entry_;
  };
  [[nodiscard]] Watch watch(Describe describe);

 private:
  void forget(std::list<Entry>::iterator entry);
  void look();
  [[nodiscard]] Error what_hangs() const;

  const std::chrono::milliseconds limit_;
  const std::function<void(const Error&)> end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> under_way_;  // the oldest first
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace meshwright::cuda
