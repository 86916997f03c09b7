#include "watchdog.h"

#include <utility>

namespace meshwright::cuda {

namespace {

constexpr std::size_t kMostNamed = 16;

}  // namespace

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void(const Error&)> end)
    : limit_(limit), end_(std::move(end)) {
  if (limit_.count() > 0) thread_ = std::thread([this] { look(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Watchdog::Watch Watchdog::watch(Describe describe) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({Clock::now(), std::move(describe)});
  if (under_way_.size() == 1) changed_.notify_all();
  return {*this, std::prev(under_way_.end())};
}

void Watchdog::forget(std::list<Entry>::iterator entry) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(entry);
}

// Wakes when the oldest has had its time, which may have ended meanwhile.
void Watchdog::look() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (under_way_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point last = under_way_.front().since + limit_;
    if (Clock::now() < last) {
      changed_.wait_until(lock, last);
      continue;
    }
    const Error hangs = what_hangs();
    lock.unlock();
    return end_(hangs);
  }
}

Error Watchdog::what_hangs() const {
  std::string said = "nothing has come of this for " +
                     std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit_).count()) +
                     " s, the limit that emit.cuda.hang_seconds sets: ";
  std::size_t named = 0;
  for (const Entry& entry : under_way_) {
    if (named == kMostNamed)
      return plugin_failed(said + ", and " + std::to_string(under_way_.size() - named) + " more");
    said += (named++ == 0 ? "" : "; ") + entry.describe();
  }
  return plugin_failed(said);
}

}  // namespace meshwright::cuda
