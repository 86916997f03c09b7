// SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): the same numbers on every
// machine and with every standard library.
#pragma once

#include <cstdint>

namespace meshwright {

inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15ULL;

// Mixes the bits of a state: the generator's finalizer.
constexpr std::uint64_t split_mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// The upper 53 bits as a number in [0, 1).
constexpr double unit_of(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1.0p-53; }

struct SplitMix {
  std::uint64_t state = 0;
  std::uint64_t next() { return split_mix(state += kSplitMixStep); }
  double unit() { return unit_of(next()); }
};

}  // namespace meshwright
