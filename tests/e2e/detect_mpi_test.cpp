// `mpirun meshwright detect`: links that are measured between real ranks of MPI. No time is tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_command;
using testing::HasSubstr;
using testing::Not;

const std::string kModel = SOURCE_FOLDER "/tests/models/mlp_tiny.pt2";
const std::string kDetect = PROGRAM " detect --device " SOURCE_FOLDER "/configs/devices/cpu_core.toml";
// In the order of the numbers any measurement makes a cluster, a busy machine's too.
const std::string kQuick = " --set cluster.detect.point_seconds=0.002 --set cluster.detect.message_bytes=1MiB", kStarted = " --set cluster.detect.order=started";

std::string mpirun(int ranks) { return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 " MPIRUN " --oversubscribe -n " + std::to_string(ranks) + " "; }

class DetectMpi : public test::FolderTest {};

TEST_F(DetectMpi, WritesAClusterThatPlansAreMadeFor) {
  const Outcome measured = run_command(mpirun(4) + kDetect + kQuick + kStarted + " --format json --keep " + path("links.csv") + " -o " + path("measured.toml"));
  ASSERT_EQ(measured.exit_code, 0) << measured.errors;
  const json said = json::parse(measured.output, nullptr, false);  // of one rank alone, or it is no JSON
  ASSERT_FALSE(said.is_discarded()) << measured.output;
  EXPECT_EQ(said["order"], json({0, 1, 2, 3}));
  EXPECT_THAT(read(path("links.csv")), HasSubstr("0 1 2 3,1048576,"));
  const Outcome planned = run_command(PROGRAM " plan " + kModel + " --cluster " + path("measured.toml") + " -o " + path("plan.json"));
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  const json cluster = json::parse(read(path("plan.json")))["cluster"];
  EXPECT_EQ(cluster["nodes"].get<int>() * cluster["devices_per_node"].get<int>(), 4);
}

// The same file, or the same refusal: a busy machine's links may be of no kind.
TEST_F(DetectMpi, KeepsWhatFromTakes) {
  for (const std::string& order : {std::string(), kStarted}) {
    std::filesystem::create_directory(path("again"));
    const Outcome measured = run_command(mpirun(4) + kDetect + kQuick + order + " --keep " + path("links.csv") + " -o " + path("cluster.toml"));
    const Outcome again = run_command(kDetect + order + " --from " + path("links.csv") + " -o " + path("again/cluster.toml"));
    EXPECT_EQ(measured.exit_code, again.exit_code) << measured.errors;
    EXPECT_TRUE(again.exit_code == 0 || (again.exit_code == 2 && order.empty())) << again.errors;
    EXPECT_THAT(measured.errors, HasSubstr(again.errors));
    const auto without_device = [&](const std::string& name) {  // which is relative to the file
      const std::string text = std::filesystem::exists(path(name)) ? read(path(name)) : "", line = "\ndevice = ";
      const std::size_t begin = text.find(line);
      return begin == std::string::npos ? text : text.substr(0, begin) + text.substr(text.find('\n', begin + 1));
    };
    EXPECT_EQ(without_device("cluster.toml"), without_device("again/cluster.toml"));
  }
}

TEST_F(DetectMpi, OfOneRankIsRefused) {
  for (const std::string& start : {std::string(), mpirun(1)}) {
    const Outcome refused = run_command(start + kDetect + " -o " + path("cluster.toml"));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("one rank alone has no links to measure"));
    EXPECT_THAT(refused.errors, HasSubstr("`mpirun -n 8 meshwright detect -o cluster.toml`"));
  }
  EXPECT_FALSE(std::filesystem::exists(path("cluster.toml")));
}

// What rank 0 refuses ends all with its code, and is said once.
TEST_F(DetectMpi, EndsAllRanksWithTheCodeOfTheFirst) {
  const std::string missing = path("no_device.toml");
  const Outcome refused = run_command(mpirun(4) + PROGRAM " detect --device " + missing + kQuick + " -o " + path("cluster.toml"));
  EXPECT_EQ(refused.exit_code, 2);
  const std::size_t first = refused.errors.find("meshwright: error: ");
  ASSERT_NE(first, std::string::npos) << refused.errors;
  EXPECT_THAT(refused.errors.substr(first), HasSubstr("no_device.toml: no such file"));
  EXPECT_THAT(refused.errors.substr(first + 1), Not(HasSubstr("meshwright: error: ")));
  EXPECT_FALSE(std::filesystem::exists(path("cluster.toml")));
}

// One of the ranks is killed while links are measured, which would take much longer.
TEST_F(DetectMpi, EndsWhereARankDies) {
  const std::string detect = kDetect + " --set cluster.detect.point_seconds=60 --keep " + path("links.csv") + " -o " + path("cluster.toml");
  const Outcome dead = run_command(mpirun(3) + detect + " : -n 1 timeout -s KILL 1 " + detect);
  EXPECT_NE(dead.exit_code, 0);
  EXPECT_NE(dead.exit_code, 124) << "the others went on";
  EXPECT_FALSE(std::filesystem::exists(path("cluster.toml")));
  EXPECT_FALSE(std::filesystem::exists(path("links.csv")));
}

TEST_F(DetectMpi, OfATransportThatIsNotThereIsRefused) {
  const Outcome refused = run_command(kDetect + " --transport pigeons -o " + path("cluster.toml"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("no plugin of kind \"transports\" is named \"pigeons\""));
  EXPECT_THAT(refused.errors, HasSubstr("libopenmpi-dev"));
  const Outcome both = run_command(kDetect + " --transport mpi --from " + path("links.csv") + " -o " + path("cluster.toml"));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(path("cluster.toml")));
}

}  // namespace
}  // namespace meshwright
