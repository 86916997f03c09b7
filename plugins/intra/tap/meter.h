// Counts elementary steps, so that the same work is done on any machine; the clock is a last resort.
#pragma once

#include <chrono>
#include <cstdint>

#include "meshwright/solver.h"

namespace meshwright::tap {

class Meter {
 public:
  explicit Meter(const SearchLimits& limits)
      : left_(limits.work_limit),
        end_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(limits.deadline_seconds))) {}

  void spend(std::int64_t steps) { left_ -= steps; }

  // Asked once for each candidate plan.
  [[nodiscard]] bool exhausted() {
    if (!cut_off_ && ++asked_ % kAsksForEachLook == 0) cut_off_ = std::chrono::steady_clock::now() > end_;
    exhausted_ |= left_ < 0 || cut_off_;
    return exhausted_;
  }
  // Whether something was left out for it.
  [[nodiscard]] bool was_exhausted() const { return exhausted_; }
  [[nodiscard]] bool cut_off_by_clock() const { return cut_off_; }

 private:
  static constexpr std::int64_t kAsksForEachLook = 64;
  std::int64_t left_;
  std::int64_t asked_ = 0;
  bool cut_off_ = false;
  bool exhausted_ = false;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace meshwright::tap
