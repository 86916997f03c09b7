// `meshwright place`, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder_test.h"
#include "printed_json.h"

namespace meshwright::host {
namespace {

using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;

// Three nodes in a row, of which the middle one takes half of the time.
std::string profile() {
  const auto node = [](const std::string& id, const std::string& forward) {
    return id + " -- Linear -- forward_compute_time=" + forward + ", backward_compute_time=0, activation_size=1000, parameter_size=0\n";
  };
  return node("a", "1000") + node("b", "2000") + node("c", "1000") + "\ta -- b\n\tb -- c\n";
}

class PlaceCommand : public test::FolderTest {
 protected:
  std::string file(const std::string& text) const {
    write("problem", text);
    return path("problem");
  }
};

TEST_F(PlaceCommand, PrintsStages) {
  const std::string arguments = "place " + file(profile()) + " --devices 4";
  const Json json = test::json_of(run_program(arguments + " --format json"));
  EXPECT_EQ(std::get<std::string>(json.find("problem")->value()), "pipedream");
  EXPECT_EQ(std::get<std::string>(json.find("inter")->value()), "pipedream");
  EXPECT_EQ(std::get<std::string>(json.find("status")->value()), "optimal");
  EXPECT_DOUBLE_EQ(test::real(json, "objective"), 1);
  EXPECT_DOUBLE_EQ(test::real(json, "speed_up"), 4);
  std::int64_t devices = 0;
  for (const Json& stage : test::list(json, "stages")) devices += test::integer(stage, "devices");
  EXPECT_EQ(devices, 4);
  const Outcome text = run_program(arguments);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("pipedream: 1 seconds a sample, optimal (4 downsets), 4 times as fast as one device"));
  EXPECT_EQ(run_program(arguments + " --format json").output, run_program(arguments + " --format json").output);
}

TEST_F(PlaceCommand, SaysNoInASentence) {
  const Outcome other = run_program("place " + file(profile()) + " --devices 4 --inter max_load");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("take --inter pipedream"));
  const Outcome unknown = run_program("place " + file(profile()) + " --devices 4 --inter pipedreem");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("pipedream"));
  const Outcome none = run_program("place " + file(profile()));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("add --devices N"));
  EXPECT_EQ(run_program("place " + file(profile()) + " --devices 0").exit_code, 2);
  EXPECT_EQ(run_program("place " + file(profile()) + " --devices 4 --bandwidth fast").exit_code, 2);
  EXPECT_EQ(run_program("place " + file(profile().substr(0, 60)) + " --devices 4").exit_code, 2);
}

TEST_F(PlaceCommand, GivesTheReasonWhereNothingFits) {
  const std::string problem = R"({"maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": 0, "edges": [], "nodes": [
    {"id": 0, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "size": 2}]})";
  const Outcome outcome = run_program("place " + file(problem) + " --format json");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors, HasSubstr("no stages fit: 2 accelerators of 1 bytes and 0 hosts"));
  EXPECT_EQ(run_program("place " + file(problem) + " --memory 2").exit_code, 0);
}

}  // namespace
}  // namespace meshwright::host
