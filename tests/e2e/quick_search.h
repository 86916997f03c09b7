// What a command is given to plan a small model in little time.
#pragma once

#include <string>

namespace meshwright::test {

inline constexpr const char* kQuickSearch = " --set search.step_rounds=0 --set search.sure=false ";

// A model of tests/models and a cluster of tests/e2e.
inline std::string tiny_on(const std::string& model, const std::string& cluster) {
  return SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/" + cluster + ".toml" + kQuickSearch;
}

inline std::string by_inter(const std::string& id) { return "--set 'search.inter=\"" + id + "\"' "; }

}  // namespace meshwright::test
