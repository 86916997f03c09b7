// What rotor knows of each segment of a chain, first..last: what its operations need to hold, in bytes.
//
// A segment is processed while its input and the gradient of its output are held; the gradient of its input is what
// is left at the end. The segment's room is the memory that it may use beside its input, the gradients included. There
// are two ways (MAP's Theorem 5.1):
// - keep all: the first stage saves all; then the rest is processed, whose input is in what was saved; then the first
//   stage's backward runs;
// - checkpoint k: the forwards first..k-1 run, keeping only the segment's input and the input of k; then k..last is
//   processed, and then first..k-1.
// So what a segment keeps it keeps until its backward, and only the stages below the last value that was kept run
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/checkpoint.h"

namespace meshwright {

// Numbers the pairs first <= last below `stages`: those of one `first` lie together.
class Triangle {
 public:
  explicit Triangle(std::size_t stages) : stages_(stages) {}
  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t size() const { return stages_ * (stages_ + 1) / 2; }
  [[nodiscard]] std::size_t at(std::size_t first, std::size_t last) const {
    return first * stages_ - first * (first - 1) / 2 + (last - first);
  }

 private:
  std::size_t stages_;
};

class SegmentNeeds {
 public:
  explicit SegmentNeeds(const Chain& chain);

  [[nodiscard]] const Triangle& triangle() const { return triangle_; }

  // At the boundary before stage `k`; 0 behind the last stage.
  [[nodiscard]] std::int64_t input(std::size_t k) const { return input_[k]; }
  [[nodiscard]] std::int64_t gradient(std::size_t k) const { return gradient_[k]; }
  [[nodiscard]] std::int64_t saved(std::size_t stage) const { return saved_[stage]; }

  // The room that the first stage's own two operations need if it keeps all (MAP's m_all, with the gradient that the
  // backward makes).
  [[nodiscard]] std::int64_t keep_all(std::size_t first, std::size_t last) const;

  // The room that the forwards first..k-1 need, first < k, which keep nothing but the segment's input; without the
  // gradient of the segment's output. It is the most over all of them (MAP's m_∅), so it ascends with `k`.
  [[nodiscard]] std::int64_t forwards(std::size_t first, std::size_t k) const {
    return forwards_[triangle_.at(first, k - 1)];
  }
  // Where those of `first` begin: forwards(first, first + 1), forwards(first, first + 2) ...
  [[nodiscard]] const std::int64_t* forwards_of(std::size_t first) const {
    return &forwards_[triangle_.at(first, first)];
  }

  // The greatest common divisor of all sizes; 1 if all are 0.
  [[nodiscard]] std::int64_t divisor() const { return divisor_; }

 private:
  Triangle triangle_;
  std::vector<std::int64_t> input_, gradient_;  // by boundary
  std::vector<std::int64_t> saved_, forward_overhead_, backward_overhead_;
  std::vector<std::int64_t> forwards_;
  std::int64_t divisor_ = 0;
};

enum class Rounding : std::uint8_t { nearest, up };

// Memory in slots of so many bytes. What an operation needs is rounded up and a room down. What is held while others
// run adds up, in a long chain by the hundreds. Rounded up, what fits in slots fits in bytes, but a good part of the
// budget may stay unused. Rounded to the nearest, errors mostly cancel, but what fits in slots may not fit in bytes.
class Slots {
 public:
  explicit Slots(std::int64_t bytes, Rounding rounding = Rounding::up) : bytes_(bytes), rounding_(rounding) {}
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t needed(std::int64_t bytes) const { return bytes / bytes_ + (bytes % bytes_ != 0 ? 1 : 0); }
  [[nodiscard]] std::int64_t held(std::int64_t bytes) const {
    const std::int64_t rest = bytes % bytes_;
    return rounding_ == Rounding::up ? needed(bytes) : bytes / bytes_ + (rest >= bytes_ - rest ? 1 : 0);
  }
  [[nodiscard]] std::int64_t in(std::int64_t bytes) const { return bytes / bytes_; }

 private:
  std::int64_t bytes_;
  Rounding rounding_;
};

// The least room, in slots, in which each segment can be processed at all. In slots of one byte it is exact.
class LeastRoom {
 public:
  LeastRoom(const SegmentNeeds& needs, Slots slots);

  [[nodiscard]] Slots slots() const { return slots_; }
  [[nodiscard]] std::int64_t of(std::size_t first, std::size_t last) const { return least_[triangle_.at(first, last)]; }
  // The room in which nothing of the segment runs twice.
  [[nodiscard]] std::int64_t of_everything(std::size_t first, std::size_t last) const {
    return everything_[triangle_.at(first, last)];
  }
  // The least if the segment begins in the way named.
  [[nodiscard]] std::int64_t of_keeping_all(std::size_t first, std::size_t last) const;
  [[nodiscard]] std::int64_t of_checkpoint(std::size_t first, std::size_t k, std::size_t last) const;

 private:
  [[nodiscard]] std::int64_t of_forwards(std::size_t first, std::size_t k, std::size_t last) const;

  const SegmentNeeds& needs_;
  Triangle triangle_;
  Slots slots_;
  std::vector<std::int64_t> input_slots_;  // by stage
  std::vector<std::int64_t> least_, everything_;
};

}  // namespace meshwright
