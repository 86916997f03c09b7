// Machines whose links are known, and measurements of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "link_matrix.h"

namespace meshwright::test {

// What links do, without noise.
struct Machine {
  explicit Machine(std::size_t devices) : latency(devices, std::vector<double>(devices, 0)), bandwidth(latency) {}

  [[nodiscard]] std::size_t devices() const { return bandwidth.size(); }
  void link(std::size_t a, std::size_t b, double seconds, double rate) {
    latency[a][b] = latency[b][a] = seconds;
    bandwidth[a][b] = bandwidth[b][a] = rate;
  }

  std::vector<std::vector<double>> latency, bandwidth;
};

struct LevelOf {
  std::size_t group;
  double latency, bandwidth;
};

// Groups inside groups, contiguous.
inline Machine nested(const std::vector<LevelOf>& levels) {
  Machine machine(levels.back().group);
  for (std::size_t a = 0; a < machine.devices(); ++a) {
    for (std::size_t b = a + 1; b < machine.devices(); ++b) {
      for (std::size_t i = levels.size(); i-- > 0;) {
        if (a / levels[i].group == b / levels[i].group) machine.link(a, b, levels[i].latency, levels[i].bandwidth);
      }
    }
  }
  return machine;
}

// MAP's Figure 5: NVLink in adjacent pairs, PCIe in a NUMA node, PCIe across.
inline Machine figure_5() { return nested({{2, 3e-6, 200e9}, {4, 5e-6, 20e9}, {8, 8e-6, 10e9}}); }
inline Machine nvswitch() { return nested({{8, 3e-6, 300e9}}); }
inline Machine ethernet() { return nested({{8, 4e-6, 150e9}, {16, 25e-6, 4e9}}); }
inline Machine three_nodes() { return nested({{4, 3e-6, 300e9}, {12, 6e-6, 25e9}}); }

// V100 in a hybrid cube mesh: quads that are wholly linked by one or two NVLinks, one link from each device to the other quad, PCIe between all others.
inline Machine dgx_1() {
  Machine machine = nested({{8, 10e-6, 10e9}});
  for (const auto& [a, b] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 3}, {1, 2}, {2, 3}, {0, 4}, {1, 5}, {4, 7}, {5, 6}, {6, 7}}) machine.link(a, b, 3e-6, 50e9);
  for (const auto& [a, b] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}}) machine.link(a, b, 3e-6, 25e9);
  return machine;
}

// So many servers of 8; the devices with one number in all servers are on one leaf switch, others go over the spine.
inline Machine rails(std::size_t servers, double spine = 20e9) {
  Machine machine = nested({{8, 3e-6, 450e9}, {8 * servers, 9e-6, spine}});
  for (std::size_t a = 0; a < machine.devices(); ++a) {
    for (std::size_t b = a + 8; b < machine.devices(); b += 8) machine.link(a, b, 6e-6, 50e9);
  }
  return machine;
}

// As one who counts the devices otherwise would see it: device i is now numbered numbers[i].
inline Machine renumbered(const Machine& machine, const std::vector<std::size_t>& numbers) {
  Machine other(machine.devices());
  for (std::size_t a = 0; a < machine.devices(); ++a) {
    for (std::size_t b = 0; b < machine.devices(); ++b) {
      other.latency[numbers[a]][numbers[b]] = machine.latency[a][b];
      other.bandwidth[numbers[a]][numbers[b]] = machine.bandwidth[a][b];
    }
  }
  return other;
}

// From the generator's bits, so that it is the same with every standard library.
inline double uniform(std::mt19937_64& random, double from, double to) { return from + (to - from) * static_cast<double>(random() >> 11) * 0x1p-53; }

inline std::vector<std::size_t> shuffled_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i;
  for (std::size_t i = count; i-- > 1;) std::swap(numbers[i], numbers[random() % (i + 1)]);
  return numbers;
}

// Each direction of each pair within 15 % of the truth, evenly.
inline Machine measured(Machine machine, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t a = 0; a < machine.devices(); ++a) {
    for (std::size_t b = 0; b < machine.devices(); ++b) {
      machine.latency[a][b] *= uniform(random, 0.85, 1.15);
      machine.bandwidth[a][b] *= uniform(random, 0.85, 1.15);
    }
  }
  return machine;
}

// The worst that measurements may be: each is 15 % too much or too little.
inline Machine measured_badly(Machine machine, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t a = 0; a < machine.devices(); ++a) {
    for (std::size_t b = 0; b < machine.devices(); ++b) {
      machine.latency[a][b] *= random() % 2 == 0 ? 0.85 : 1.15;
      machine.bandwidth[a][b] *= random() % 2 == 0 ? 0.85 : 1.15;
    }
  }
  return machine;
}

inline LinkMatrix matrix_of(const Machine& machine) { return make_link_matrix(machine.latency, machine.bandwidth).value(); }

}  // namespace meshwright::test
