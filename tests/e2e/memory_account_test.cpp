// What a device's file says of its memory, and that a plan fits with all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;
using testing::Not;

const std::string kAccountedModel = SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2";

class Account : public test::FolderTest {
 protected:
  // Eight slow devices, two by two, with so much memory and these lines of overheads.
  [[nodiscard]] std::string cluster(std::int64_t memory_bytes, const std::string& overheads,
                                    const std::string& reserved = "") const {
    std::string device = read(TEST_FOLDER "/slow_device.toml");
    const std::string memory = "memory = \"4GiB\"";
    device.replace(device.find(memory), memory.size(), "memory = \"" + std::to_string(memory_bytes) + "B\"");
    std::ofstream(path("slow_device.toml"))
        << device << (overheads.empty() ? "" : "\n[memory_overheads]\n" + overheads);
    std::string text = read(TEST_FOLDER "/slow8.toml");
    const std::string line = "reserved_bytes = \"0GiB\"\n";
    text.replace(text.find(line), line.size(), reserved);
    std::ofstream(path("cluster.toml")) << text;
    return path("cluster.toml");
  }

  [[nodiscard]] std::string command(const std::string& cluster_file, const std::string& options = "") const {
    return "plan " + kAccountedModel + " --cluster " + cluster_file + " --mesh 2x4 --set search.sure=false --set search.step_rounds=1 -o " + path("plan.json") + " " + options;
  }

  [[nodiscard]] json plan(const std::string& cluster_file, const std::string& options = "") const {
    const Outcome outcome = run_program(command(cluster_file, options));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? json::parse(read(path("plan.json"))) : json();
  }
};

constexpr std::int64_t kMuch = std::int64_t{4} << 30;

TEST_F(Account, IsPartOfThePlanAndOfWhatIsPrinted) {
  const std::string file = cluster(kMuch,
                                   "driver = \"1MiB\"\ncontext = \"2MiB\"\nworkspace = \"3MiB\"\ncommunicator = "
                                   "\"1KiB\"\nblock = \"512B\"\nfragmentation = 0.5\n");
  const Outcome outcome = run_program(command(file));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("Of the 4.00 GiB of a device\n  tensors of the program"));
  EXPECT_THAT(outcome.output, HasSubstr("workspaces"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("reserved by the cluster file")));
  const json memory = plan(file)["memory"];
  const std::int64_t program = memory["program_bytes"], rounding = memory["rounding_bytes"],
                     communicators = memory["communicators"];
  EXPECT_GT(rounding, 0);
  EXPECT_GE(communicators, 1);
  EXPECT_LE(communicators, 4);  // two axes, both together, all devices, of which two are the same group
  EXPECT_EQ(memory["fragmentation_bytes"], (program + rounding) / 2);
  EXPECT_EQ(memory["driver_bytes"], 1 << 20);
  EXPECT_EQ(memory["context_bytes"], 2 << 20);
  EXPECT_EQ(memory["workspace_bytes"], 3 << 20);
  EXPECT_EQ(memory["communicator_bytes"], communicators << 10);
  EXPECT_EQ(memory["total_bytes"], program + rounding + (program + rounding) / 2 + (6 << 20) + (communicators << 10));
  // The commands on plans find the same, from the program and the plan's own cluster.
  for (const char* asked : {"simulate ", "profile "}) {
    EXPECT_EQ(json::parse(run_program(asked + path("plan.json") + " --format json").output)["memory"], memory) << asked;
    EXPECT_THAT(run_program(asked + path("plan.json")).output, HasSubstr("Of the 4.00 GiB of a device")) << asked;
  }
}

// Whatever a device says that its memory holds: a plan is given out only if all of it fits.
TEST_F(Account, OfEveryPlanIsWithinTheDevice) {
  const std::int64_t free = plan(cluster(kMuch, "", "reserved_bytes = \"0B\"\n"))["peak_bytes"];
  const auto part = [&](double share) {
    return " = \"" + std::to_string(static_cast<std::int64_t>(share * static_cast<double>(free))) + "B\"\n";
  };
  int planned = 0, refused = 0;
  for (const std::string& overheads : {"communicator" + part(0.3), std::string("fragmentation = 0.4\n"),
                                       std::string("block = \"512B\"\nsmall_segment = \"4KiB\"\n"),
                                       "context" + part(0.2) + "communicator" + part(0.1) + "fragmentation = 0.1\n"}) {
    for (const double share : {1.0, 1.5, 2.5}) {
      const auto memory = static_cast<std::int64_t>(share * static_cast<double>(free));
      const Outcome outcome = run_program(command(cluster(memory, overheads), "--format json"));
      const json found = json::parse(outcome.output);
      if (outcome.exit_code == 3) {
        ++refused;
        continue;
      }
      ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
      ++planned;
      EXPECT_LE(found["memory"]["total_bytes"], memory) << overheads << share;
      EXPECT_EQ(found["memory"]["program_bytes"], found["peak_bytes"]);
      EXPECT_LE(found["peak_bytes"], found["budget_bytes"]);
      if (share > 1.0) continue;
      EXPECT_LT(found["peak_bytes"], free);  // what fits is another plan than the one of all the memory
    }
  }
  EXPECT_GE(planned, 8);
  EXPECT_GE(refused, 1);
}

TEST_F(Account, IsNamedByARefusal) {
  const std::int64_t free = plan(cluster(kMuch, "", "reserved_bytes = \"0B\"\n"))["peak_bytes"];
  const std::string file = cluster(2 * free, "context = \"" + std::to_string(free / 2) + "B\"\ncommunicator = \"" +
                                                 std::to_string(free * 3 / 2) + "B\"\n");
  const Outcome outcome = run_program(command(file));
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  for (const char* said : {"no plan fits into", "the smallest plan that is known takes", "context", "communicator"})
    EXPECT_THAT(outcome.errors, HasSubstr(said));
  // A budget is of the program's peak alone: then the plan says that it may not fit.
  EXPECT_THAT(plan(file, "--memory-budget " + std::to_string(free))["notes"].dump(), HasSubstr("it may not fit"));
}

// The file of a device that `calibrate` writes says the same of its memory.
TEST_F(Account, IsKeptByCalibrate) {
  const json planned = plan(cluster(kMuch,
                                    "driver = \"1MiB\"\ncontext = \"2MiB\"\nworkspace = \"3MiB\"\ncommunicator = "
                                    "\"1KiB\"\nblock = \"512B\"\nfragmentation = 0.5\n"));
  std::ofstream(path("rows.csv")) << "plan,seconds\nplan.json,1\n";
  const Outcome outcome =
      run_program("calibrate " + path("rows.csv") + " --coefficients memory_efficiency -o " + path("fitted.toml"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  std::filesystem::rename(path("fitted.toml"), path("slow_device.toml"));
  EXPECT_EQ(plan(path("cluster.toml"))["cluster"]["memory_overheads"], planned["cluster"]["memory_overheads"]);
}

TEST_F(Account, NonsenseIsRefused) {
  const auto refusal = [&](const std::string& overheads, const std::string& reserved = "") {
    const Outcome outcome = run_program(command(cluster(kMuch, overheads, reserved)));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("context = \"-1B\"\n"), HasSubstr("[memory_overheads]: 'context' is no possible size"));
  EXPECT_THAT(refusal("context = \"4GiB\"\n"),
              HasSubstr("[memory_overheads]: context is 4294967296 bytes, but must be"));
  EXPECT_THAT(refusal("contexts = \"1GiB\"\n"), HasSubstr("'contexts' is not a known key"));
  EXPECT_THAT(refusal("fragmentation = -0.5\n"), HasSubstr("fragmentation is -0.5"));
  EXPECT_THAT(refusal("fragmentation = \"5%\"\n"), HasSubstr("'fragmentation' must be a number"));
  EXPECT_THAT(refusal("driver = \"1GiB\"\ncontext = \"1GiB\"\nworkspace = \"1GiB\"\n", "reserved_bytes = \"1GiB\"\n"),
              HasSubstr("leave nothing for a program"));
  EXPECT_THAT(refusal(""), HasSubstr("'reserved_bytes' is missing, and the device's file has no [memory_overheads]"));
}

}  // namespace
}  // namespace meshwright
