// `[search] inputs`: what a plan is worth to ranks that feed rows of the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;
using testing::Not;

// A vision transformer on four devices, whose sums of one number take so long that it pays to compute the loss of the whole batch everywhere, of gathered features
// and labels, if the labels are there.
class InputRows : public test::FolderTest {
 protected:
  // Rates of a megabyte and less; smaller messages take as long.
  nlohmann::json planned(const std::string& all_reduce, const std::string& all_gather, const std::string& settings) const {
    const std::string cluster = path("cluster.toml"), plan = path("plan.json");
    const auto measured = [](const std::string& collective, const std::string& rate) {
      return "\n[[level.measured]]\ndevices = 4\ncollective = \"" + collective + "\"\nbytes = [\"1MB\", \"1GB\"]\nbus_bandwidth = [\"" + rate + "\", \"10GB/s\"]\n";
    };
    std::ofstream(cluster) << "name = \"rows\"\nnodes = 1\ndevices_per_node = 4\ndevice = \"" SOURCE_FOLDER "/configs/devices/a100_80gb.toml\"\n\n[[level]]\nname = \"link\"\ngroup = 4\n"
                           << "bandwidth = \"1GB/s\"\nlatency = \"1us\"\n" + measured("all_reduce", all_reduce) + measured("all_gather", all_gather);
    const Outcome outcome = run_program("plan " SOURCE_FOLDER "/examples/vit_base.pt2 --cluster " + cluster + " --mesh 4 --set search.zero=0 --set search.step_rounds=0 " + settings + " -o " + plan);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? nlohmann::json::parse(std::ifstream(plan)) : nlohmann::json();
  }
};

TEST_F(InputRows, APlanThatTakesRowsAsTheyAreFedIsPreferred) {
  const std::string sums = "600MB/s", gathers = "300MB/s";
  const nlohmann::json any = planned(sums, gathers, ""), rows = planned(sums, gathers, "--set search.inputs=rows");
  const nlohmann::json data_parallel = planned(sums, gathers, "--set search.batch_axes=all");
  EXPECT_LT(any["objective_seconds"], rows["objective_seconds"]);
  EXPECT_EQ(rows["objective_seconds"], data_parallel["objective_seconds"]);
  EXPECT_EQ(rows["status"], "bounded");
  EXPECT_EQ(rows["lower_bound_seconds"], any["lower_bound_seconds"]);
  EXPECT_THAT(rows["notes"].dump(), Not(HasSubstr("gather inputs")));
}

TEST_F(InputRows, OrTheGathersAreSaid) {
  const std::string sums = "500MB/s", gathers = "750MB/s";
  const nlohmann::json any = planned(sums, gathers, ""), rows = planned(sums, gathers, "--set search.inputs=rows");
  EXPECT_EQ(rows["objective_seconds"], any["objective_seconds"]);
  EXPECT_THAT(rows["notes"].dump(), HasSubstr("gather inputs"));
  EXPECT_THAT(any["notes"].dump(), Not(HasSubstr("gather inputs")));
}

}  // namespace
}  // namespace meshwright
