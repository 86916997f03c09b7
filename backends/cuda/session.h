// What runs together, and what its ranks share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "called_file.h"
#include "command.h"
#include "devices.h"
#include "driver.h"
#include "links.h"
#include "meshwright/backend.h"
#include "meshwright/stages.h"
#include "watchdog.h"

namespace meshwright::cuda {

// The programs that run together: of a whole model, or of the stages of a pipeline.
struct JointPrograms {
  std::vector<const BackendInput*> inputs;
  std::vector<std::uint32_t> group_of;  // by stage: of devices
  JointOrder order;
  std::vector<std::int64_t> peaks = {};  // by group, of a device's stages together; none: each stage has its own

  [[nodiscard]] std::vector<const Program*> programs() const {
    std::vector<const Program*> programs;
    for (const BackendInput* input : inputs) programs.push_back(&input->program);
    return programs;
  }
  // Of each group the number of its first device, and how many there are of all.
  [[nodiscard]] std::vector<std::int64_t> first_devices() const {
    std::vector<std::int64_t> first(2 + *std::ranges::max_element(group_of), 0);
    for (std::size_t s = 0; s < inputs.size(); ++s) first[group_of[s] + 1] = inputs[s]->program.mesh.devices();
    std::partial_sum(first.begin(), first.end(), first.begin());
    return first;
  }
  [[nodiscard]] std::int64_t devices() const { return first_devices().back(); }
  // By seat: the ranks of each stage, one stage after the other.
  [[nodiscard]] std::vector<std::int64_t> devices_by_seat() const {
    std::vector<std::int64_t> devices;
    const std::vector<std::int64_t> first = first_devices();
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      for (std::int64_t rank = 0; rank < inputs[s]->program.mesh.devices(); ++rank)
        devices.push_back(first[group_of[s]] + rank);
    }
    return devices;
  }
};

// Of what all processes must have alike (FNV-1a).
inline std::uint64_t digest_of(const JointPrograms& stages) {
  std::uint64_t digest = 14695981039346656037U;
  const auto add = [&](const std::string& text) {
    for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
  };
  for (const Program* program : stages.programs()) {
    for (const Occurrence& step : occurrences(*program)) add(describe(*program, step));
    for (ProgramValueId id = 0; id < program->values.size(); ++id) add(to_string(program->local(id)));
  }
  return digest;
}

// A rank of a stage, that is in this process.
struct RankHere {
  std::size_t stage = 0;
  std::int64_t rank = 0;
  Seat seat;
};

// All that ranks share, for as long as there are any.
struct Session {
  // `hangs`: what ends a run that does (watchdog.h).
  Session(std::unique_ptr<Driver> of, Links made, CalledFile called, std::chrono::seconds limit,
          std::function<void(const Error&)> hangs)
      : called_file(std::move(called)),
        driver(std::move(of)),
        links(std::move(made)),
        watchdog(limit, std::move(hangs)),
        devices(*driver, watchdog) {}

  // Among those that are here.
  [[nodiscard]] std::size_t place_of(std::int64_t seat) const {
    const auto found = std::ranges::find(here, seat, [](const RankHere& each) { return each.seat.number; });
    return static_cast<std::size_t>(found - here.begin());
  }

  const CalledFile called_file;  // written when all below has ended
  const std::unique_ptr<Driver> driver;
  const Links links;
  Watchdog watchdog;
  Devices devices;
  std::vector<RankHere> here;
  std::vector<Block> blocks;  // by rank that is here, and so are these
  std::vector<RankStep> steps;
  std::set<GroupKey> groups;
};

}  // namespace meshwright::cuda
