// Plans of several pipeline stages as a user meets them: `plan`, `verify`, `simulate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "files/json.h"
#include "planned_pipeline.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::json_of;
using test::list;
using test::real;
using test::run_program;
using test::scratch;
using test::verify_and_simulate;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// On slow devices the plans of small models share the work as those of large ones do on quick ones.
std::string plan_command(const std::string& model, const std::string& options, int microbatches = 4) {
  return "plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/slow8.toml --set train.microbatches=" + std::to_string(microbatches) +
         " --set train.batch_coupling=allow " + options;
}

// Of one stage on 1, 2, or 2x2 devices, as `inside` says: the cluster has 8.
struct StagesCase {
  const char* model;
  int stages;
  const char* inside;
  const char* schedule;
  int microbatches = 4;
};

void PrintTo(const StagesCase& here, std::ostream* out) { *out << here.model << " " << here.stages << " " << here.inside << " " << here.schedule; }

class PlannedStages : public testing::TestWithParam<StagesCase> {};

TEST_P(PlannedStages, ComputeWhatOneDeviceComputes) {
  const StagesCase& here = GetParam();
  const std::string file = scratch("plan.json");
  const Json planned = json_of(run_program(plan_command(here.model, "--set search.stages=" + std::to_string(here.stages) + " --set 'search.schedule=\"" + here.schedule + "\"' --mesh " +
                                                                        here.inside + " --format json -o " + file, here.microbatches)));
  const Json::Array& stages = list(planned, "stages");
  ASSERT_EQ(std::ssize(stages), here.stages);
  std::int64_t next = 0;
  for (const Json& stage : stages) {
    for (const Json& device : list(stage, "devices")) EXPECT_EQ(std::get<std::int64_t>(device.value()), next++);
    EXPECT_LE(real(stage, "step_share_seconds"), real(planned, "step_seconds") * (1 + 1e-9));
  }
  EXPECT_EQ(next, 8);
  EXPECT_EQ(integer(stages.back(), "in_flight"), std::string(here.schedule) == "one_f_one_b" ? 1 : here.microbatches);
  verify_and_simulate(file, planned, 8);
}

// ResNet in one part: in float32 one device and many differ otherwise with one stage too, since batch norm over few samples makes much of what is rounded. In float64 RandomStages has it in four.
INSTANTIATE_TEST_SUITE_P(Models, PlannedStages,
                         testing::Values(StagesCase{"gpt2_tiny", 2, "2x2", "one_f_one_b"}, StagesCase{"gpt2_tiny", 4, "2", "gpipe"}, StagesCase{"gpt2_deep_tiny", 8, "1", "one_f_one_b"},
                                         StagesCase{"bert_tiny", 4, "2", "one_f_one_b"}, StagesCase{"t5_tiny", 4, "2", "one_f_one_b"}, StagesCase{"t5_tiny", 2, "2x2", "gpipe"},
                                         StagesCase{"vit_tiny", 2, "4", "one_f_one_b"}, StagesCase{"resnet_tiny", 4, "2", "one_f_one_b", 1}, StagesCase{"unet_tiny", 4, "2", "gpipe"},
                                         StagesCase{"mixtral_tiny", 2, "2x2", "one_f_one_b"}, StagesCase{"llama_tiny", 4, "2", "gpipe"},
                                         StagesCase{"gpt2_deep_tiny", 4, "2", "zb_h1"}),
                         [](const auto& info) { return std::string(info.param.model) + "_" + std::to_string(info.param.stages) + "_" + info.param.inside + "_" + info.param.schedule; });

// Several parts of the model on the same devices: along a circle, or back and forth (V). Devices hold both parts, in turn, and a weight that both have is in each.
struct ChunksCase {
  const char* model;
  int stages;
  const char* inside;
  const char* schedule;
  const char* options = "";
};
void PrintTo(const ChunksCase& here, std::ostream* out) { *out << here.model << " " << here.stages << " " << here.inside << " " << here.schedule; }

class PlannedChunks : public testing::TestWithParam<ChunksCase> {};

TEST_P(PlannedChunks, ComputeWhatOneDeviceComputes) {
  const ChunksCase& here = GetParam();
  const std::string file = scratch("chunks.json");
  const Json planned = json_of(run_program(plan_command(here.model, "--set search.stages=" + std::to_string(here.stages) + " --set search.chunks=2 --set 'search.schedule=\"" + here.schedule + "\"' --mesh " +
                                                                        here.inside + " " + here.options + " --format json -o " + file)));
  EXPECT_EQ(std::ssize(list(planned, "stages")), 2 * here.stages);
  const Json::Array& groups = list(planned, "groups");
  ASSERT_EQ(std::ssize(groups), here.stages);
  std::set<std::int64_t> stages;
  for (const Json& group : groups) {
    std::int64_t most = 0, sum = 0;
    for (const Json& stage : list(group, "stages")) {
      const std::int64_t number = std::get<std::int64_t>(stage.value()), held = integer(list(planned, "stages")[static_cast<std::size_t>(number)], "peak_bytes");
      stages.insert(number);
      most = std::max(most, held);
      sum += held;
    }
    EXPECT_GT(integer(group, "peak_bytes"), most);
    EXPECT_LE(integer(group, "peak_bytes"), std::min(sum, integer(planned, "budget_bytes")));
  }
  EXPECT_EQ(std::ssize(stages), 2 * here.stages);
  verify_and_simulate(file, planned, 8);
}

INSTANTIATE_TEST_SUITE_P(Models, PlannedChunks,
                         testing::Values(ChunksCase{"gpt2_tiny", 2, "2x2", "interleaved"}, ChunksCase{"gpt2_deep_tiny", 4, "2", "interleaved"}, ChunksCase{"gpt2_deep_tiny", 2, "4", "looped_bfs", "--memory-budget 300KiB"},
                                         ChunksCase{"t5_tiny", 4, "2", "interleaved"}, ChunksCase{"unet_tiny", 2, "4", "looped_bfs"}, ChunksCase{"mixtral_tiny", 2, "2x2", "interleaved"},
                                         ChunksCase{"gpt2_deep_tiny", 4, "2", "zb_v"}, ChunksCase{"llama_tiny", 2, "2x2", "dualpipe_v"},
                                         ChunksCase{"gpt2_tiny", 2, "4", "from_csv", "--set search.from_csv.file=" TEST_FOLDER "/back_and_forth.csv"}),
                         [](const auto& info) { return std::string(info.param.model) + "_" + std::to_string(info.param.stages) + "_" + info.param.inside + "_" + info.param.schedule; });

// Less memory than two parts planned for all of it take: each is planned for a part of it.
TEST(Stages, ThatShareDevicesShareTheirMemory) {
  const std::string command = "--set search.stages=2 --set 'search.schedule=\"interleaved\"' --mesh 4 --format json ";
  const std::int64_t most = integer(json_of(run_program(plan_command("gpt2_deep_tiny", command))), "peak_bytes"), budget = most * 9 / 10;
  const Json tight = json_of(run_program(plan_command("gpt2_deep_tiny", command + "--memory-budget " + std::to_string(budget))));
  EXPECT_LE(integer(tight, "peak_bytes"), budget);
  const Outcome refused = run_program(plan_command("gpt2_deep_tiny", command + "--memory-budget 170KiB"));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.errors, testing::AllOf(HasSubstr("no plan fits into"), HasSubstr("(its part of 170 KiB, which the stages on its devices share)")));
}

TEST(Stages, TheSameInputGivesTheSameBytes) {
  const std::string first = scratch("first.json"), second = scratch("second.json");
  for (const std::string& file : {first, second}) ASSERT_EQ(run_program(plan_command("gpt2_tiny", "--set search.stages=2 -o " + file)).exit_code, 0);
  EXPECT_EQ(read(first), read(second));
}

TEST(Stages, WhatCanNotBeIsRefusedByName) {
  const auto refusal = [](const std::string& options) {
    const Outcome outcome = run_program(plan_command("gpt2_tiny", options));
    EXPECT_NE(outcome.exit_code, 0) << options;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("--set search.stages=3"), HasSubstr("take a number of stages that divides them"));
  EXPECT_THAT(refusal("--set search.stages=0"), HasSubstr("\"stages\" in [search] must be at least 1"));
  EXPECT_THAT(refusal("--set search.chunks=2"), HasSubstr("\"chunks\" in [search] is of a model in several stages"));
  EXPECT_THAT(refusal("--set search.stages=2 --set search.chunks=2"), HasSubstr("one_f_one_b"));
  EXPECT_THAT(refusal("--set search.stages=2 --set 'train.order=\"F0 B0 F1 B1 F2 B2 F3 B3\"'"), HasSubstr("\"order\" in [train] is of one stage"));
  EXPECT_THAT(refusal("--set search.stages=2 --top 2"), HasSubstr("--top 2"));
  EXPECT_THAT(refusal("--set search.stages=2 --set 'train.microbatches=\"free\"'"), HasSubstr("not tried with several stages"));
  EXPECT_THAT(refusal("--set search.stages=2 --memory-budget 10KiB"), HasSubstr("stage 0 of 2"));
  EXPECT_THAT(refusal("--set search.stages=2 --set 'pins.\"inner.transformer.nothing\"=\"stage 1\"'"), HasSubstr("has no module or node 'inner.transformer.nothing'"));
  EXPECT_THAT(refusal("--set search.stages=2 --set 'pins.\"inner.transformer.wte\"=\"stage 1\"' --set 'pins.\"inner.transformer.ln_f\"=\"stage 0\"'"),
              HasSubstr("[pins] puts modules into stages that do not follow each other"));
}

TEST(Stages, APinPutsAModuleIntoAStage) {
  const Outcome outcome = run_program(plan_command("gpt2_deep_tiny", "--set search.stages=2 --set 'pins.\"inner.transformer.h.0.mlp\"=\"stage 1\"'"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("inner.transformer.h.0.ln_2 to inner"));
}

// A block more or less in the stage that takes longest: neither makes the step shorter, or it would have been moved; with pins nothing is moved.
TEST(Stages, WhatMovingABlockWouldChangeIsSaid) {
  const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", "--set search.stages=2 --format json")));
  const Json::Array& notes = list(planned, "notes");
  ASSERT_FALSE(notes.empty());
  const std::string note = std::get<std::string>(notes.front().value()), said = " would make the step ";
  EXPECT_THAT(note, testing::StartsWith("Moving 'inner.transformer.h."));
  const std::size_t at = note.find(said);
  ASSERT_NE(at, std::string::npos) << note;
  EXPECT_GE(std::stod(note.substr(at + said.size())) + 5e-4, 1e3 * real(planned, "step_seconds"));
  const Json pinned = json_of(run_program(plan_command("gpt2_deep_tiny", "--set search.stages=2 --set 'pins.\"inner.transformer.h.0.mlp\"=\"stage 1\"' --format json")));
  EXPECT_TRUE(list(pinned, "notes").empty());
}

std::vector<std::string> notes_of(const std::string& model, const std::string& options) {
  const Json planned = json_of(run_program(plan_command(model, options + " --format json")));
  std::vector<std::string> notes;
  for (const Json& note : list(planned, "notes")) notes.push_back(std::get<std::string>(note.value()));
  return notes;
}

// DenseNet has no blocks, Swin has such of unlike sizes, and a block of GPT-2 may be most of a stage.
TEST(Stages, WhatMovingAModuleWouldChangeIsSaidWhereNoBlockCanMove) {
  const auto says = [](const std::string& module) { return testing::Contains(testing::StartsWith("Moving 'inner." + module + "' from stage")); };
  EXPECT_THAT(notes_of("densenet_tiny", "--set search.stages=4"), says("transition.1"));
  EXPECT_THAT(notes_of("swin_tiny", "--set search.stages=4"), says("features.1.1"));
  EXPECT_THAT(notes_of("gpt2_deep_tiny", "--set search.stages=2 --set 'search.schedule=\"interleaved\"' --memory-budget 450KiB"), says("transformer.h.3.mlp"));
}

// The same stages split as usual plans split a model, and the model in one stage, whose step is one of those that `compare` knows bounds of.
TEST(Stages, AreSetBesideUsualPlans) {
  const auto compared = [](const std::string& options) {
    const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", options + " --format json")));
    std::map<std::string, Json> rows;
    for (const Json& row : list(planned, "comparisons")) rows.emplace(std::get<std::string>(row.find("name")->value()), row);
    return rows;
  };
  const std::map<std::string, Json> rows = compared("--set search.stages=4 --mesh 2");
  ASSERT_EQ(rows.size(), 3U);
  const Json alone = json_of(run_program(plan_command("gpt2_deep_tiny", "--format json")));
  EXPECT_GE(real(rows.at("one stage"), "step_seconds"), real(alone, "step_lower_bound_seconds"));
  EXPECT_LE(real(rows.at("one stage"), "step_seconds"), 1.1 * real(alone, "step_seconds"));
  const double step = real(json_of(run_program(plan_command("gpt2_deep_tiny", "--set search.stages=4 --mesh 2 --format json"))), "step_seconds");
  for (const char* name : {"data parallel in each stage", "Megatron in each stage"}) {
    EXPECT_GE(real(rows.at(name), "step_seconds"), step) << name;
    EXPECT_LE(real(rows.at(name), "step_seconds"), 2 * step) << name;
    EXPECT_GT(integer(rows.at(name), "peak_bytes"), 0) << name;
  }
  EXPECT_EQ(compared("--set search.stages=8").size(), 1U);  // stages of one device are not split
  const Json impossible = compared("--set search.stages=2 --mesh 4").at("data parallel in each stage");  // 2 samples of a microbatch
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(impossible.find("step_seconds")->value()));
  EXPECT_THAT(std::get<std::string>(impossible.find("note")->value()), testing::StartsWith("stage 0: 'embedding' cannot be split along the batch"));
}

// What a file says is held against the model: a stage can't have another one's op.
TEST(Stages, AFileThatCutsOtherwiseThanItSaysIsRefused) {
  const std::string file = scratch("spoiled.json");
  ASSERT_EQ(run_program(plan_command("mlp_tiny", "--set search.stages=2 -o " + file)).exit_code, 0);
  std::string text = read(file);
  const std::size_t at = text.find("\"stages\": [");
  ASSERT_NE(at, std::string::npos);
  const std::size_t kind = text.find("\"received\"", at);
  ASSERT_NE(kind, std::string::npos);
  text.replace(kind, 10, "\"user_input\"");
  std::ofstream(file, std::ios::binary) << text;
  const Outcome outcome = run_program("verify " + file);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("is no part of the model as the stages cut it"));
}

TEST(Stages, AFileWhoseDevicesRunAnotherOrderIsRefused) {
  const std::string file = scratch("orders.json");
  ASSERT_EQ(run_program(plan_command("gpt2_tiny", "--set search.stages=2 --set 'search.schedule=\"interleaved\"' -o " + file)).exit_code, 0);
  const std::string text = read(file);
  const auto refusal = [&](const std::string& words, const std::string& others) {
    std::string spoiled = text;
    const std::size_t at = spoiled.find(words, spoiled.find("\"orders\""));
    EXPECT_NE(at, std::string::npos) << words;
    spoiled.replace(at, words.size(), others);
    std::ofstream(file, std::ios::binary) << spoiled;
    const Outcome outcome = run_program("verify " + file);
    EXPECT_NE(outcome.exit_code, 0) << others;
    return outcome.errors;
  };
  EXPECT_THAT(refusal("0F0 0F1", "0F1 0F0"), HasSubstr("devices are to run the forward of microbatch 1 of stage 0 where that stage's program has the forward of microbatch 0"));
  EXPECT_THAT(refusal("0F0", "1F0"), HasSubstr("stage 1 is on two groups of devices"));
  EXPECT_THAT(refusal("0F0", "9F0"), HasSubstr("stage 9 is in the order of devices, and there are 4 stages"));
  EXPECT_THAT(refusal("0F0", "0X0"), HasSubstr("'0X0'"));
  EXPECT_THAT(refusal("0F0", "F0"), HasSubstr("is no event of a stage"));
  EXPECT_THAT(refusal(" 0F1", ""), HasSubstr("where that stage's program has the forward of microbatch 1"));
}

TEST(Stages, CommandsThatKnowOneStageSaySo) {
  const std::string file = scratch("emitted.json");
  ASSERT_EQ(run_program(plan_command("mlp_tiny", "--set search.stages=2 -o " + file)).exit_code, 0);
  for (const char* command : {"explain ", "profile "}) {
    const Outcome outcome = run_program(command + file);
    EXPECT_NE(outcome.exit_code, 0) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("2 stages, which `plan`, `verify`, `run`, `simulate` and `emit` take whole, `explain` and `profile` with --stage")) << command;
    EXPECT_THAT(run_program(command + file + " --stage 2").errors, HasSubstr("numbered from 0")) << command;
  }
}

TEST(Stages, AStageIsLookedAtAsAPlan) {
  const std::string file = scratch("looked_at.json");
  const Json planned = json_of(run_program(plan_command("gpt2_deep_tiny", "--set search.stages=2 --format json -o " + file)));
  for (int stage = 0; stage < 2; ++stage) {
    const std::string wanted = file + " --stage " + std::to_string(stage);
    EXPECT_EQ(run_program("explain " + wanted).exit_code, 0);
    EXPECT_EQ(integer(json_of(run_program("profile " + wanted + " --format json")), "peak_bytes"), integer(list(planned, "stages")[static_cast<std::size_t>(stage)], "peak_bytes"));
  }
}

TEST(Stages, TheirStepIsDrawn) {
  const std::string file = scratch("drawn.json"), trace = scratch("trace.json"), picture = scratch("step.svg");
  ASSERT_EQ(run_program(plan_command("gpt2_tiny", "--set search.stages=2 -o " + file)).exit_code, 0);
  const Outcome outcome = run_program("simulate " + file + " --trace " + trace + " --svg " + picture);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("to fill and to drain"));
  const Json events = host::parse_json(read(trace), trace).value();
  std::set<std::int64_t> processes;
  for (const Json& event : list(events, "traceEvents")) processes.insert(integer(event, "pid"));
  EXPECT_EQ(processes, (std::set<std::int64_t>{0, 1}));
  EXPECT_THAT(read(picture), testing::StartsWith("<svg "));
  EXPECT_THAT(read(picture), HasSubstr("stage 1"));
}

}  // namespace
}  // namespace meshwright
