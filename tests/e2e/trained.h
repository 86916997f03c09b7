// Plans of small models, and what `meshwright run` says of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright::test {

using nlohmann::json;

class Trains : public FolderTest {
 protected:
  // The file of a plan for eight slow devices.
  std::string planned(const std::string& model, const std::string& options, const std::string& name = "plan.json", const std::string& cluster = "slow8") const {
    const Outcome outcome = run_program("plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " SOURCE_FOLDER "/tests/e2e/" + cluster + ".toml " + options + " -o " + path(name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return path(name);
  }

  static std::string run_words(const std::string& plan, const std::string& options) { return PROGRAM " run " + plan + " --format json " + options; }
};

inline json said(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  json value = json::parse(outcome.output, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << outcome.output;
  return value;
}

inline std::vector<double> losses(const json& said) { return said.value("losses", std::vector<double>()); }

inline void expect_near(const std::vector<double>& some, const std::vector<double>& others, double relative) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], relative * std::abs(others[i])) << "step " << i + 1;
}

}  // namespace meshwright::test
