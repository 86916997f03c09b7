// Counts elementary steps against the limits of a search, so that it stops at the same place on every machine; the
// clock is a last resort and is looked at rarely.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "meshwright/solver.h"

namespace meshwright::elimination {

class Meter {
 public:
  explicit Meter(const SearchLimits& limits)
      : limit_(limits.work_limit),
        end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                    std::chrono::duration<double>(limits.deadline_seconds))) {}

  // Whether the search may go on, after `steps` more. Once it may not, it never may.
  bool spend(std::int64_t steps) {
    work_ += steps;
    if (work_ > limit_) exhausted_ = true;
    if (work_ >= next_look_) {
      next_look_ = work_ + kStepsPerLook;
      if (std::chrono::steady_clock::now() > end_) exhausted_ = cut_off_by_clock_ = true;
    }
    return !exhausted_;
  }

  // Limits for a part of what is left.
  [[nodiscard]] SearchLimits left(double share) const {
    SearchLimits limits;
    limits.work_limit = static_cast<std::int64_t>(share * static_cast<double>(std::max<std::int64_t>(0, limit_ - work_)));
    limits.deadline_seconds = share * std::max(0.0, std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count());
    return limits;
  }

  // A part of the search was cut off by the clock.
  void note_cut_off() { cut_off_by_clock_ = true; }

  // Whether the clock wants the search to end; other threads may ask too.
  [[nodiscard]] bool is_late() const { return std::chrono::steady_clock::now() > end_; }

  [[nodiscard]] bool exhausted() const { return exhausted_; }
  [[nodiscard]] bool cut_off_by_clock() const { return cut_off_by_clock_; }
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  static constexpr std::int64_t kStepsPerLook = 1'000'000;
  std::int64_t work_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t limit_;
  std::chrono::steady_clock::time_point end_;
  bool exhausted_ = false;
  bool cut_off_by_clock_ = false;
};

}  // namespace meshwright::elimination
