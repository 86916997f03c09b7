// Latency and bandwidth of every pair of devices, as they were measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

// Measurements are within 15 % of what a link does. Two of one kind then differ by 1.15 / 0.85 = 1.35 at most, and of two kinds, of which
// one does twice what the other does, by 2 × 0.85 / 1.15 = 1.48 at least. What differs by more than this is of two kinds.
inline constexpr double kApart = 1.4142135623730951;

inline constexpr std::size_t kMostMeasured = 1024;  // devices

struct LinkMatrix {
  std::size_t devices = 0;
  std::vector<double> latency_seconds;   // row-major, symmetric; the diagonal says nothing
  std::vector<double> bytes_per_second;
  std::size_t uneven = 0;                // pairs whose directions differ by more than kApart

  [[nodiscard]] double latency(std::size_t a, std::size_t b) const { return latency_seconds[a * devices + b]; }
  [[nodiscard]] double bandwidth(std::size_t a, std::size_t b) const { return bytes_per_second[a * devices + b]; }
};

enum class Directions : std::uint8_t {
  alike,   // or the pair is refused
  slower,  // counts where they are not alike
};

inline bool are_alike(double there, double back) { return std::max(there, back) <= kApart * std::min(there, back); }

// The geometric mean of both directions of each pair. Errors, each naming the pair: bad_input for matrices that are not square and of one
// size, for values that are no numbers or out of range, for a bandwidth of 0 (devices that are not connected), and for directions that
// differ by more than kApart, if they must not.
Result<LinkMatrix> make_link_matrix(const std::vector<std::vector<double>>& latency_seconds, const std::vector<std::vector<double>>& bytes_per_second,
                                    Directions directions = Directions::alike);

// Of values, of which there is at least one; of an even number the geometric mean of the two in the middle.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : std::sqrt(values[half - 1] * values[half]);
}

}  // namespace meshwright
