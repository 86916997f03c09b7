// `meshwright run`: losses of steps, and training that is saved and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trained.h"

namespace meshwright::test {
namespace {

using testing::HasSubstr;

class Run : public Trains {
 protected:
  json trained(const std::string& plan, const std::string& options) const { return said(run_command(run_words(plan, options))); }

  // That it ends with code 2 and says so.
  static void expect_refused(const std::string& command, const std::string& why) {
    const Outcome outcome = run_command(command);
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.errors, HasSubstr(why)) << command;
    EXPECT_EQ(outcome.output, "") << command;
  }
};

TEST_F(Run, SaysWhatEachStepWas) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all");
  const json run = trained(plan, "--steps 3");
  EXPECT_EQ(run["backend"], "reference");
  EXPECT_EQ(run["ranks"], 8);
  EXPECT_EQ(run["first_step"], 0);
  ASSERT_EQ(losses(run).size(), 3U);
  ASSERT_EQ(run["step_seconds"].size(), 3U);
  for (const json& seconds : run["step_seconds"]) EXPECT_GT(seconds.get<double>(), 0);
  // Weights and inputs are those of `verify`.
  const json verified = said(run_program("verify " + plan + " --format json"));
  EXPECT_EQ(losses(run)[0], verified["loss_parallel"].get<double>());
  EXPECT_EQ(run["bytes_sent"], verified["bytes_sent_predicted"]);
  EXPECT_EQ(run["peak_bytes"], verified["peak_bytes_predicted"]);
  EXPECT_EQ(losses(trained(plan, "--steps 3")), losses(run));
  EXPECT_NE(losses(trained(plan, "--steps 3 --seed 1")), losses(run));
  EXPECT_THAT(run_program("run " + plan).output, HasSubstr("8 ranks on backend 'reference'"));
}

// What runs beside the computing may come as late as the program says that something waits for it: parameters that are gathered, gradients that are reduced and added up,
// what stages send.
TEST_F(Run, WaitsForWhatRunsBesideTheComputing) {
  for (const std::string options : {"--mesh 2x4 --set search.zero=3 --set search.batch_axes=all --set train.microbatches=1", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"}) {
    const std::string plan = planned("gpt2_deep_tiny", options);
    const json late = trained(plan, "--steps 3 --set emit.reference.communicates_late=true"), in_order = trained(plan, "--steps 3");
    EXPECT_EQ(losses(late), losses(in_order)) << options;
    EXPECT_EQ(late["bytes_sent"], in_order["bytes_sent"]) << options;
    EXPECT_EQ(late["peak_bytes"], in_order["peak_bytes"]) << options;
  }
}

// Losses of eight devices, in one stage and in two, are those of one up to rounding in float32.
TEST_F(Run, IsTheSameOnOneDevice) {
  const std::string microbatches = " --set train.microbatches=4";
  const std::vector<double> one = losses(trained(planned("gpt2_deep_tiny", "--mesh 1" + microbatches, "one.json", "a100x1"), "--steps 4"));
  expect_near(losses(trained(planned("gpt2_deep_tiny", "--mesh 2x4" + microbatches, "eight.json"), "--steps 4")), one, 1e-5);
  expect_near(losses(trained(planned("gpt2_deep_tiny", "--mesh 2x2 --set search.stages=2" + microbatches, "stages.json"), "--steps 4")), one, 1e-5);
}

TEST_F(Run, GoesOnFromWhatItSaved) {
  const std::string plan = planned("gpt2_deep_tiny", "--mesh 2x4 --set train.microbatches=4");
  const std::vector<double> all = losses(trained(plan, "--steps 5"));
  trained(plan, "--steps 3 --save " + path("state.safetensors"));
  const json rest = trained(plan, "--steps 2 --resume " + path("state.safetensors") + " --save " + path("later.safetensors"));
  EXPECT_EQ(rest["first_step"], 3);
  EXPECT_EQ(losses(rest), (std::vector<double>{all[3], all[4]}));
  // What is saved is that of five steps, byte for byte.
  trained(plan, "--steps 5 --save " + path("at_once.safetensors"));
  EXPECT_EQ(read(path("later.safetensors")), read(path("at_once.safetensors")));
  // By a plan of other layouts, in stages: up to rounding.
  const std::string stages = planned("gpt2_deep_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4", "stages.json");
  expect_near(losses(trained(stages, "--steps 2 --resume " + path("state.safetensors"))), {all[3], all[4]}, 1e-5);
  trained(stages, "--steps 3 --save " + path("of_stages.safetensors"));
  expect_near(losses(trained(plan, "--steps 2 --resume " + path("of_stages.safetensors"))), {all[3], all[4]}, 1e-5);
}

// Running statistics are buffers; momentum keeps one tensor, plain descent none.
TEST_F(Run, SavesWhatTheModelAndTheOptimizerKeep) {
  for (const std::string optimizer : {"momentum", "sgd"}) {
    const std::string plan = planned("resnet_tiny", "--mesh 2x2 --set train.batch_coupling=allow --set train.microbatches=2 --set train.optimizer=" + optimizer, "plan.json", "a100x4");
    const std::vector<double> all = losses(trained(plan, "--steps 3"));
    trained(plan, "--steps 1 --save " + path("state.safetensors"));
    const std::string file = read(path("state.safetensors"));
    EXPECT_THAT(file, HasSubstr("running_mean"));
    EXPECT_EQ(file.find("optimizer/first/") != std::string::npos, optimizer == "momentum");
    EXPECT_EQ(file.find("optimizer/second/"), std::string::npos);
    EXPECT_EQ(losses(trained(plan, "--steps 2 --resume " + path("state.safetensors"))), (std::vector<double>{all[1], all[2]})) << optimizer;
  }
}

TEST_F(Run, RefusesFilesThatItCanNotGoOnFrom) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x2", "plan.json", "a100x4"), file = path("state.safetensors");
  const std::string resume = PROGRAM " run " + plan + " --resume ";
  trained(plan, "--save " + file);
  const std::string text = read(file);
  expect_refused(resume + path("nothing"), path("nothing") + ": no such file");
  expect_refused(resume + plan, plan + ": is no file of safetensors");
  write("cut", text.substr(0, text.size() / 2));
  expect_refused(resume + path("cut"), "the file is cut off");
  write("short", text.substr(0, 100));
  expect_refused(resume + path("short"), path("short") + ": is cut off");
  std::string renamed = text;
  renamed.replace(renamed.find("meshwright training"), 10, "someone's ");
  write("renamed", renamed);
  expect_refused(resume + path("renamed"), path("renamed") + ": was not written by `meshwright run --save`");
  std::string unknown = text;
  unknown.replace(unknown.find("\"inner."), 7, "\"outer.");
  write("unknown", unknown);
  expect_refused(resume + path("unknown"), path("unknown") + ": is of another model: it has no 'inner.");
  std::string steps = text;
  steps.replace(steps.find("\"steps\":\"1\""), 11, "\"steps\":\"x\"");
  write("steps", steps);
  expect_refused(resume + path("steps"), "its number of steps is missing");
  expect_refused(resume + file + " --seed 3", "was saved with --seed 0, and goes on with it");
  const std::string other = planned("mlp_tiny", "--mesh 2x2", "other.json", "a100x4");
  expect_refused(PROGRAM " run " + other + " --resume " + file, file + ": is of another model: it has no '");
  const std::string plain = planned("gpt2_tiny", "--mesh 2x2 --set train.optimizer=sgd", "plain.json", "a100x4");
  expect_refused(PROGRAM " run " + plain + " --resume " + file, file + ": was saved with the optimizer 'adamw', and the plan has 'sgd'; plan with --set train.optimizer=adamw");
}

TEST_F(Run, RefusesBackendsThatRunNothing) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x2", "plan.json", "a100x4");
  expect_refused(PROGRAM " run " + plan + " --backend nobody", "no plugin of kind \"backend\" is named \"nobody\"");
  expect_refused(PROGRAM " run " + plan + " --backend torch", "backend 'torch': this backend runs nothing");
  expect_refused(PROGRAM " run " + path("no_plan.json"), "no_plan.json: cannot read the plan");
  expect_refused(PROGRAM " run " + plan + " --save " + path(""), "is a folder");
}

// Nobody here computes an FFT: there is no file of a training that did not end.
TEST_F(Run, LeavesNoFileBehindAFailure) {
  const std::string plan = planned("spectral_tiny", "--mesh 2x2", "plan.json", "a100x4");
  expect_refused(PROGRAM " run " + plan + " --save " + path("state.safetensors"), "rank 0, instruction ");
  EXPECT_FALSE(std::filesystem::exists(path("state.safetensors")));
}

}  // namespace
}  // namespace meshwright::test
