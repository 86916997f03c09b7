#include "rank_timer.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace meshwright {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kParts = 7, kFewestParts = 3;
constexpr double kMostRepetitions = 1e8;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class RankTimer {
 public:
  RankTimer(const RankWorkMaker& make, int ranks, double seconds)
      : make_(make), ranks_(ranks), part_seconds_(seconds / kParts), meeting_(ranks, AtMeeting{this}) {}

  double run() {
    {
      std::vector<std::jthread> others;
      for (int rank = 1; rank < ranks_; ++rank) {
        const bool started = attempt([&] { others.emplace_back([this, rank] { take_part(rank); }); });
        if (!started) meeting_.arrive_and_drop();
      }
      take_part(0);
    }
    if (failure_) std::rethrow_exception(failure_);
    std::ranges::sort(parts_);
    return parts_[parts_.size() / 2];
  }

 private:
  // Runs while all ranks wait, so that all of them see the same: either each goes on or each stops.
  struct AtMeeting {
    RankTimer* timer;
    void operator()() const noexcept { timer->stops_ = timer->failed_; }
  };

  // Whether nothing has failed on any rank.
  bool meet() {
    meeting_.arrive_and_wait();
    return !stops_;
  }

  template <class Action>
  bool attempt(Action action) {
    try {
      action();
      return true;
    } catch (...) {
      const std::scoped_lock lock(failing_);
      if (!failed_) failure_ = std::current_exception();
      failed_ = true;
      return false;
    }
  }

  // Only rank 0 writes what the ranks share, and only between two meetings.
  void take_part(int rank) {
    RankWork work;
    // The first repetition fills the caches, and a library makes what it keeps.
    attempt([&] {
      work = make_(rank);
      work();
    });
    if (!meet()) return;
    while (!planned_) {
      const double seconds = part(work);
      if (stops_) return;
      if (rank == 0) plan(seconds);
      if (!meet()) return;
    }
    for (std::size_t i = 0; i < part_count_; ++i) {
      const double seconds = part(work);
      if (stops_) return;
      if (rank == 0) parts_.push_back(seconds / repetitions_);
    }
  }

  double part(const RankWork& work) {
    const Clock::time_point start = Clock::now();
    attempt([&] {
      for (double i = 0; i < repetitions_; ++i) work();
    });
    meet();
    return since(start);
  }

  // Repeats more often until a part is long enough for the clock and for what a meeting takes.
  void plan(double seconds) {
    if (repetitions_ == 1 && seconds > kParts * part_seconds_) part_count_ = kFewestParts;
    planned_ = seconds >= part_seconds_ || repetitions_ >= kMostRepetitions;
    if (planned_) return;
    const double more = std::clamp(1.2 * part_seconds_ / std::max(seconds, 1e-9), 2.0, 100.0);
    repetitions_ = std::min(std::ceil(repetitions_ * more), kMostRepetitions);
  }

  const RankWorkMaker& make_;
  int ranks_;
  double part_seconds_;
  bool stops_ = false, planned_ = false;
  std::size_t part_count_ = kParts;
  double repetitions_ = 1;
  std::vector<double> parts_;
  std::mutex failing_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
  std::barrier<AtMeeting> meeting_;
};

}  // namespace

double seconds_of(const RankWorkMaker& make, int ranks, double seconds) {
  return RankTimer(make, ranks, seconds).run();
}

}  // namespace meshwright
