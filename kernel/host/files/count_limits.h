// Counts beyond which a number in a configuration, a plan file or an option is a mistake: what they count is unrolled or
// tried one by one, so that a larger one would end in a full memory instead of a sentence.
#pragma once

#include <cstdint>

namespace meshwright::host {

inline constexpr std::int64_t kMostStepRounds = 100;    // of searches on each mesh
inline constexpr std::int64_t kMostMicrobatches = 4096;  // of a step; a program has the instructions of each
inline constexpr int kMostPlans = 1000;         // of --top and --alternatives
inline constexpr double kMostDeadlineSeconds = 1e8;      // three years

}  // namespace meshwright::host
