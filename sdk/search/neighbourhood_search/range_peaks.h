// Values at points 0 .. size-1 under "add to a range" and "the most of a range": a segment tree without propagation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace meshwright {

class RangePeaks {
 public:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min() / 4;  // the most of nothing

  explicit RangePeaks(std::span<const std::int64_t> values) {
    while (leaves_ < values.size()) leaves_ *= 2;
    most_.assign(2 * leaves_, kNone);
    added_.assign(leaves_, 0);
    std::copy(values.begin(), values.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t i = leaves_; i-- > 1;) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }

  void add(std::size_t begin, std::size_t end, std::int64_t value) {
    if (begin >= end) return;
    std::size_t left = begin + leaves_;
    std::size_t right = end + leaves_;
    for (std::size_t l = left, r = right; l < r; l /= 2, r /= 2) {
      if ((l & 1U) != 0) apply(l++, value);
      if ((r & 1U) != 0) apply(--r, value);
    }
    lift(left);
    lift(right - 1);
  }

  [[nodiscard]] std::int64_t most() const { return leaves_ == 1 ? most_[1] : std::max(most_[2], most_[3]) + added_[1]; }

  [[nodiscard]] std::int64_t most(std::size_t begin, std::size_t end) const {
    return begin < end ? most_within(1, 0, leaves_, begin, end) : kNone;
  }

  // Those of points [begin, end), into the front of `values`.
  void read(std::size_t begin, std::size_t end, std::vector<std::int64_t>& values) const {
    values.resize(end - begin);
    if (begin < end) read_within(1, 0, leaves_, begin, end, 0, values.data());
  }

  // The first point that has the most.
  [[nodiscard]] std::size_t first_peak() const {
    std::size_t i = 1;
    while (i < leaves_) i = 2 * i + (most_[2 * i] >= most_[2 * i + 1] ? 0 : 1);
    return i - leaves_;
  }

 private:
  void apply(std::size_t i, std::int64_t value) {
    most_[i] += value;
    if (i < leaves_) added_[i] += value;
  }
  void lift(std::size_t i) {
    for (i /= 2; i >= 1; i /= 2) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]) + added_[i];
  }
  [[nodiscard]] std::int64_t most_within(std::size_t i, std::size_t from, std::size_t to, std::size_t begin,
                                         std::size_t end) const {
    if (begin <= from && to <= end) return most_[i];
    const std::size_t middle = (from + to) / 2;
    std::int64_t result = kNone;
    if (begin < middle) result = most_within(2 * i, from, middle, begin, end);
    if (end > middle) result = std::max(result, most_within(2 * i + 1, middle, to, begin, end));
    return result + added_[i];
  }

  void read_within(std::size_t i, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                   std::int64_t added, std::int64_t* values) const {
    if (i >= leaves_) {
      values[from - begin] = most_[i] + added;
      return;
    }
    const std::size_t middle = (from + to) / 2;
    added += added_[i];
    if (begin < middle) read_within(2 * i, from, middle, begin, end, added, values);
    if (end > middle) read_within(2 * i + 1, middle, to, begin, end, added, values);
  }

  std::size_t leaves_ = 1;
  std::vector<std::int64_t> most_;
  std::vector<std::int64_t> added_;  // to all below, for inner ones
};

}  // namespace meshwright
