// Every schedule on every model, in 2 and 4 stages of 1, 2 and 2 x 2 devices: some of them, drawn by a seed, in each run of the tests, and all of them in `make nightly`.
// MESHWRIGHT_SEED=n draws others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "planned_pipeline.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"

namespace meshwright {
namespace {

using host::Json;
using test::groups_of;
using test::json_of;
using test::list;
using test::run_program;
using test::scratch;

constexpr int kMicrobatches = 4;
constexpr std::size_t kDrawn = 12;

struct Schedule {
  const char* id;
  int chunks;  // for the devices of each stage
};
constexpr Schedule kSchedules[] = {{"gpipe", 1}, {"one_f_one_b", 1}, {"interleaved", 2}, {"looped_bfs", 2}, {"from_csv", 2}, {"zb_h1", 1}, {"zb_v", 2}, {"dualpipe_v", 2}};

struct PipelineModel {
  const char* name;
  const char* plan = "";  // options
  const char* verify = "";
};
// Batch norm makes much of what is rounded, the more the fewer samples it sees: ResNet is held against one device in float64, with 8 samples in a microbatch.
constexpr PipelineModel kModels[] = {{"gpt2_deep_tiny"}, {"bert_tiny"}, {"t5_tiny"}, {"vit_tiny"}, {"resnet_tiny", " --set model.batch=32", "--exact"}, {"unet_tiny"}, {"mixtral_tiny"}, {"llama_tiny"}};

struct Inside {
  const char* mesh;  // of each stage
  int devices;
};
constexpr Inside kInside[] = {{"1", 1}, {"2", 2}, {"2x2", 4}};

struct PipelineCase {
  PipelineModel model;
  Schedule schedule;
  int stages = 0;
  Inside inside;

  [[nodiscard]] int devices() const { return stages * inside.devices; }
  [[nodiscard]] std::string name() const { return std::string(model.name) + "_" + schedule.id + "_" + std::to_string(stages) + "_" + inside.mesh; }
};

void PrintTo(const PipelineCase& here, std::ostream* out) { *out << here.name(); }

std::vector<PipelineCase> all_cases() {
  std::vector<PipelineCase> cases;
  for (const PipelineModel& model : kModels) {
    for (const Schedule& schedule : kSchedules) {
      for (const int stages : {2, 4}) {
        for (const Inside& inside : kInside) cases.push_back({model, schedule, stages, inside});
      }
    }
  }
  return cases;
}

std::vector<PipelineCase> drawn_cases() {
  const char* seed = std::getenv("MESHWRIGHT_SEED");
  std::mt19937_64 random(seed != nullptr ? static_cast<std::uint64_t>(std::atoi(seed)) : 0);
  std::vector<PipelineCase> cases = all_cases();
  for (std::size_t i = 0; i < kDrawn; ++i) std::swap(cases[i], cases[i + random() % (cases.size() - i)]);
  cases.resize(kDrawn);
  return cases;
}

// Slow devices in pairs, as in slow8.toml.
std::string cluster_of(int devices) {
  const std::string file = scratch("slow" + std::to_string(devices) + ".toml"), count = std::to_string(devices);
  std::ofstream out(file);
  out << "name = \"slow" << count << "\"\nnodes = 1\ndevices_per_node = " << count << "\ndevice = \"" TEST_FOLDER "/slow_device.toml\"\nreserved_bytes = \"0GiB\"\n"
      << "[[level]]\nname = \"pair\"\ngroup = 2\nbandwidth = \"2GB/s\"\nlatency = \"1us\"\n";
  if (devices > 2) out << "[[level]]\nname = \"all\"\ngroup = " << count << "\nbandwidth = \"1GB/s\"\nlatency = \"1us\"\n";
  return file;
}

// Back and forth along the stages: all forwards of the first half of the model, all of the second half, and the backwards in the other order.
std::string schedule_file(int stages) {
  const std::string file = scratch("back_and_forth_" + std::to_string(stages) + ".csv");
  std::ofstream out(file);
  for (int stage = 0; stage < stages; ++stage) {
    const int near = stage, far = 2 * stages - 1 - stage;
    std::string line;
    for (const auto& [position, kind] : {std::pair(near, 'F'), std::pair(far, 'F'), std::pair(far, 'B'), std::pair(near, 'B')}) {
      for (int i = 0; i < kMicrobatches; ++i) line += (line.empty() ? "" : ",") + std::to_string(position) + kind + std::to_string(i);
    }
    out << line << "\n";
  }
  return file;
}

class Pipelines : public testing::TestWithParam<PipelineCase> {};

TEST_P(Pipelines, ComputeWhatOneDeviceComputes) {
  const PipelineCase& here = GetParam();
  const std::string file = scratch(here.name() + ".json");
  std::string command = "plan " SOURCE_FOLDER "/tests/models/" + std::string(here.model.name) + ".pt2 --cluster " + cluster_of(here.devices()) + " --mesh " + here.inside.mesh + here.model.plan +
                        " --set train.batch_coupling=allow --set train.microbatches=" + std::to_string(kMicrobatches) + " --set search.stages=" + std::to_string(here.stages) +
                        " --set 'search.schedule=\"" + here.schedule.id + "\"'";
  if (here.schedule.chunks > 1) command += " --set search.chunks=" + std::to_string(here.schedule.chunks);
  if (std::string(here.schedule.id) == "from_csv") command += " --set search.from_csv.file=" + schedule_file(here.stages);
  const Json planned = json_of(run_program(command + " --format json -o " + file));
  EXPECT_EQ(std::ssize(list(planned, "stages")), here.stages * here.schedule.chunks);
  ASSERT_EQ(std::ssize(groups_of(planned)), here.stages);
  for (const Json& group : groups_of(planned)) EXPECT_EQ(std::ssize(list(group, "devices")), here.inside.devices);
  test::verify_and_simulate(file, planned, here.devices(), here.model.verify);
}

std::string case_name(const testing::TestParamInfo<PipelineCase>& info) { return info.param.name(); }

INSTANTIATE_TEST_SUITE_P(Drawn, Pipelines, testing::ValuesIn(drawn_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(All, Pipelines, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace meshwright
