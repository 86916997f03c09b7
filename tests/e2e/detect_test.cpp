// `meshwright detect`: from recorded matrices to a cluster's file that plans are made for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "folder_test.h"
#include "run_program.h"

namespace meshwright {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

const std::string kDetected = SOURCE_FOLDER "/tests/models/mlp_tiny.pt2";
const std::string kDevice = " --device " SOURCE_FOLDER "/configs/devices/a100_80gb.toml";

struct LevelOf {
  int group;
  double latency, bandwidth;
};

const std::vector<LevelOf> kFigure5 = {{2, 3e-6, 200e9}, {4, 5e-6, 20e9}, {8, 8e-6, 10e9}};
const std::vector<LevelOf> kEthernet = {{8, 4e-6, 150e9}, {16, 25e-6, 4e9}};

// Each pair's row, up to 14 % off. `numbers`: what the devices are called.
std::vector<std::string> rows_of(const std::vector<LevelOf>& levels, const std::vector<int>& numbers = {}) {
  std::vector<std::string> rows;
  const auto called = [&](int device) { return numbers.empty() ? device : numbers[static_cast<std::size_t>(device)]; };
  for (int a = 0; a < levels.back().group; ++a) {
    for (int b = a + 1; b < levels.back().group; ++b) {
      const auto level = std::ranges::find_if(levels, [&](const LevelOf& each) { return a / each.group == b / each.group; });
      std::ostringstream row;
      row << called(a) << "," << called(b) << "," << level->latency * (1 + 0.02 * ((3 * a + 5 * b) % 15 - 7)) << "," << level->bandwidth * (1 + 0.02 * ((7 * a + 4 * b) % 15 - 7)) << "\n";
      rows.push_back(row.str());
    }
  }
  return rows;
}

std::string csv_of(const std::vector<std::string>& rows) {
  std::string text = "a,b,latency_s,bandwidth_Bps\n";
  for (const std::string& row : rows) text += row;
  return text;
}

class Detect : public test::FolderTest {
 protected:
  // Writes the matrices and gives the options that name them and the cluster's file.
  [[nodiscard]] std::string recorded(const std::string& csv) const {
    std::ofstream(path("matrices.csv")) << csv;
    return " --from " + path("matrices.csv") + " -o " + path("cluster.toml");
  }

  static std::string output_of(const std::string& arguments) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.errors;
    return outcome.output;
  }

  [[nodiscard]] json plan(const std::string& options = "") const {
    output_of("plan " + kDetected + " --cluster " + path("cluster.toml") + " -o " + path("plan.json") + options);
    return json::parse(read(path("plan.json")), nullptr, false);
  }
};

TEST_F(Detect, WritesAClusterThatPlansAreMadeFor) {
  const json said = json::parse(output_of("detect --format json" + kDevice + recorded(csv_of(rows_of(kFigure5)))));
  EXPECT_EQ(said["mesh"], "2x2x2");
  EXPECT_EQ(said["order"], json({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(said["slow_links"], json::array());
  const json planned = plan(" --mesh 2x2x2")["cluster"];
  EXPECT_EQ(planned["nodes"], 1);
  EXPECT_EQ(planned["devices_per_node"], 8);
  EXPECT_EQ(planned["device"], "A100-80GB");
  ASSERT_EQ(planned["levels"].size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const json &written = planned["levels"][i], &found = said["levels"][i];
    EXPECT_EQ(written["group"], kFigure5[i].group);
    EXPECT_EQ(written["name"], found["name"]);
    EXPECT_NEAR(written["bytes_per_second"].get<double>() / found["bytes_per_second"].get<double>(), 1, 1e-5);  // six digits
    EXPECT_NEAR(written["latency_seconds"].get<double>() / found["latency_seconds"].get<double>(), 1, 1e-5);
    EXPECT_NEAR(written["bytes_per_second"].get<double>() / kFigure5[i].bandwidth, 1, 0.14);
    EXPECT_NEAR(written["latency_seconds"].get<double>() / kFigure5[i].latency, 1, 0.14);
  }
  output_of("verify " + path("plan.json"));
}

TEST_F(Detect, TellsServersAndWhatTheyShare) {
  std::string csv = csv_of(rows_of(kEthernet)) + "group,bytes,seconds\n";
  for (const double bytes : {1e6, 1e8, 1e9}) {
    csv += "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15," + std::to_string(bytes) + "," + std::to_string(1e-3 + bytes / 4e9 * 2 * 15 / 16) + "\n";
  }
  const std::string said = output_of("detect" + kDevice + recorded(csv));
  EXPECT_THAT(said, HasSubstr("2 x 8 devices; all groups are alike on the axes of a mesh of 2x8"));
  const json planned = plan()["cluster"];
  EXPECT_EQ(planned["nodes"], 2);
  EXPECT_EQ(planned["devices_per_node"], 8);
  EXPECT_EQ(planned["levels"][1]["sharers"], 8);
  EXPECT_EQ(planned["levels"][1]["ganged"], false);
  ASSERT_EQ(planned["levels"][1]["measured"].size(), 1);
  EXPECT_EQ(planned["levels"][1]["measured"][0]["devices"], 16);
  EXPECT_EQ(planned["levels"][1]["measured"][0]["bytes"], json({1e6, 1e8, 1e9}));
}

TEST_F(Detect, NamesASlowLinkAndTheOrderOfRanks) {
  const std::vector<int> numbers = {5, 2, 7, 0, 1, 6, 3, 4};
  std::vector<std::string> rows = rows_of(kFigure5, numbers);
  std::ranges::replace_if(rows, [](const std::string& row) { return row.starts_with("5,2,"); }, "5,2,3e-6,11e9\n");  // of 200
  const std::string said = output_of("detect" + kDevice + recorded(csv_of(rows)));
  const std::string file = read(path("cluster.toml"));
  for (const std::string& text : {said, file}) {
    EXPECT_THAT(text, HasSubstr("Slow link 2-5 in links_2: bandwidth of "));
    EXPECT_THAT(text, HasSubstr("GB/s expected, 11GB/s measured"));
    EXPECT_THAT(text, HasSubstr("rank 0, 1, 2, ... on the measurement's device 0 7 2 5 1 6 3 4\n"));
  }
  EXPECT_EQ(plan()["cluster"]["levels"].size(), 3);
}

TEST_F(Detect, WritesTheSameBytesWhateverTheOrderOfRows) {
  std::vector<std::string> rows = rows_of(kEthernet);
  output_of("detect" + kDevice + recorded(csv_of(rows)));
  const std::string once = read(path("cluster.toml"));
  std::ranges::reverse(rows);
  std::ranges::rotate(rows, rows.begin() + 17);
  output_of("detect" + kDevice + recorded(csv_of(rows)));
  EXPECT_EQ(read(path("cluster.toml")), once);
}

TEST_F(Detect, NamesADeviceThatIsStillToCome) {
  EXPECT_THAT(output_of("detect" + recorded(csv_of(rows_of(kFigure5)))), HasSubstr("It names device.toml beside it"));
  const Outcome none = run_program("plan " + kDetected + " --cluster " + path("cluster.toml"));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("device.toml: no such file"));
  std::filesystem::copy_file(SOURCE_FOLDER "/configs/devices/a100_80gb.toml", path("device.toml"));
  EXPECT_EQ(plan()["cluster"]["levels"].size(), 3);
}

// A device that states no overheads leaves it to the cluster's file to say what it reserves.
TEST_F(Detect, ReservesNothingBesideADeviceWithoutOverheads) {
  output_of("detect --device " TEST_FOLDER "/slow_device.toml" + recorded(csv_of(rows_of(kFigure5))));
  EXPECT_THAT(read(path("cluster.toml")), HasSubstr("reserved_bytes = \"0B\"\n"));
  EXPECT_EQ(plan()["cluster"]["levels"].size(), 3);
}

TEST_F(Detect, SaysWhatIsWrongAndWritesNothing) {
  const auto refused = [&](const std::string& options) {
    const Outcome outcome = run_program("detect" + options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_FALSE(std::filesystem::exists(path("cluster.toml"))) << options;
    return outcome.errors;
  };
  const std::string good = csv_of(rows_of(kFigure5));
  EXPECT_THAT(refused(" --transport none -o " + path("cluster.toml")), HasSubstr("no plugin of kind \"transports\" is named \"none\""));
  EXPECT_THAT(refused(recorded(good) + " --keep " + path("kept.csv")), HasSubstr("--keep"));
  EXPECT_THAT(refused(" --from " + path("none.csv") + " -o " + path("cluster.toml")), HasSubstr("none.csv: no such file"));
  EXPECT_THAT(refused(" --from " + path("") + " -o " + path("cluster.toml")), HasSubstr("no such file"));
  EXPECT_THAT(refused(recorded("")), HasSubstr("matrices.csv: "));
  EXPECT_THAT(refused(recorded(good + "0,1,3e-6,fast\n")), HasSubstr("matrices.csv:30: bandwidth_Bps is 'fast'"));
  EXPECT_THAT(refused(recorded(good + "7,8,3e-6,1e9\n")), HasSubstr("devices 0 and 8 were not measured"));
  EXPECT_THAT(refused(recorded(good + "1,0,3e-6,9e9\n")), HasSubstr("devices 0 and 1: bandwidth is"));
  std::string uneven = "a,b,latency_s,bandwidth_Bps\n";
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) uneven += std::to_string(a) + "," + std::to_string(b) + ",3e-6," + ((a < 3) == (b < 3) ? "2e11" : "1e10") + "\n";
  }
  EXPECT_THAT(refused(recorded(uneven)), HasSubstr("groups of unequal size, and a mesh has equal ones: {0 1 2}, {3 4 5 6 7}"));
  EXPECT_THAT(refused(recorded(good) + " --set cluster.detect.devices_per_node=3"), HasSubstr("links join groups of 2, 4, 8 devices"));
  EXPECT_THAT(refused(recorded(good) + " --set cluster.detect.devices_per_node=-1"), HasSubstr("devices_per_node must be at least 1"));
  EXPECT_THAT(refused(recorded(good) + " --set cluster.detect.nodes=1"), HasSubstr("devices_per_node"));
  EXPECT_THAT(refused(recorded(good) + " --device " + path("none.toml")), HasSubstr("none.toml: no such file"));
  EXPECT_THAT(refused(recorded(good) + " --device " SOURCE_FOLDER "/configs/clusters/h100x8.toml"), HasSubstr("this is a cluster of 8"));
  EXPECT_EQ(run_program("detect --from " + path("matrices.csv")).exit_code, 2);  // -o is missing
  const Outcome planned = run_program("plan " + kDetected + " --cluster " + path("matrices.csv") + " --set cluster.plugin=detect");
  EXPECT_EQ(planned.exit_code, 2);
  EXPECT_THAT(planned.errors, HasSubstr("meshwright detect --from " + path("matrices.csv")));
}

}  // namespace
}  // namespace meshwright
