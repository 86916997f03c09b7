// Reads the placement problems that authors published, each in its own format, which is recognised by what stands in it:
//
//   a JSON object with "maxFPGAs"    Tarnawski et al. 2020 (msr-fiddle/dnn-partitioning): a LoadProblem
//   a JSON object with "maxDevices"  Tarnawski et al. 2021 (msr-fiddle/piper): a LayerProblem
//   lines "node1 -- Conv2d -- ..."   Narayanan et al. 2019 (msr-fiddle/pipedream): a ReplicaProblem, without the inputs
//                                    and the results of __getitem__ that nobody reads, as their optimizer has it
//
// Nodes are named by their ids in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "meshwright/placement.h"
#include "meshwright/result.h"

namespace meshwright::host {

// What goes before the file, or is not in it.
struct PlacementSettings {
  std::optional<std::uint32_t> devices;          // accelerators of a LoadProblem; a profile of PipeDream's needs it
  std::optional<std::int64_t> device_bytes;      // not of a ReplicaProblem
  std::optional<std::int64_t> bytes_per_second;  // not of a LoadProblem
};

inline constexpr double kProfileBytesPerSecond = 1.25e9;  // of a profile, which has none: 10 Gb/s

// Gives a valid problem. Errors: bad_input with the file, the place, and what would fix it; settings that the format
// has no use for.
Result<PlacementProblem> read_placement(const std::string& path, const PlacementSettings& settings);
Result<PlacementProblem> parse_placement(std::string_view text, const std::string& name, const PlacementSettings& settings);

}  // namespace meshwright::host
