// What every plan of several stages must be, whatever its model, schedule and meshes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "printed_json.h"

namespace meshwright::test {

// By group of devices; one that has a stage to itself is in the list of stages.
inline const host::Json::Array& groups_of(const host::Json& planned) { return list(planned, planned.find("groups") != nullptr ? "groups" : "stages"); }

// Three steps of the plan in `file` equal those of one device, peaks are those that `plan --format json` printed to the byte, and the step is the planned one. `options` are of `verify`.
inline void verify_and_simulate(const std::string& file, const host::Json& planned, std::int64_t ranks, const std::string& options = "") {
  const host::Json verified = json_of(run_program("verify " + file + " --format json " + options));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  EXPECT_EQ(integer(verified, "steps"), 3);
  EXPECT_EQ(integer(verified, "ranks"), ranks);
  EXPECT_EQ(integer(verified, "bytes_sent_predicted"), integer(verified, "bytes_sent_measured"));
  const host::Json::Array &peaks = list(verified, "stages"), &held = groups_of(planned);
  ASSERT_EQ(peaks.size(), held.size());
  for (std::size_t s = 0; s < peaks.size(); ++s) {
    EXPECT_EQ(integer(peaks[s], "peak_bytes_measured"), integer(peaks[s], "peak_bytes_predicted")) << s;
    if (!options.empty()) continue;  // in float64 they are not those of the plan
    EXPECT_EQ(integer(peaks[s], "peak_bytes_predicted"), integer(held[s], "peak_bytes")) << s;
  }
  const host::Json simulated = json_of(run_program("simulate " + file + " --format json"));
  EXPECT_DOUBLE_EQ(real(simulated, "step_seconds"), real(planned, "step_seconds"));
}

}  // namespace meshwright::test
