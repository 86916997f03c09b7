// `mpirun meshwright run --backend mpi`: ranks that are processes compute what ranks that are threads compute, bit for bit, since both add in the order of the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "trained.h"

namespace meshwright::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string mpirun(int ranks, const std::string& environment = "") {
  return environment + " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 " MPIRUN " --oversubscribe -n " + std::to_string(ranks) + " ";
}

struct Trained {
  const char* name;
  const char* model;
  const char* options;
};

void PrintTo(const Trained& trained, std::ostream* out) { *out << trained.name; }

class RunMpi : public Trains {};
class RunMpiOnEight : public Trains, public testing::WithParamInterface<Trained> {};

TEST_P(RunMpiOnEight, IsWhatThreadsCompute) {
  const std::string plan = planned(GetParam().model, GetParam().options);
  const json threads = said(run_command(run_words(plan, "--steps 3"))), processes = said(run_command(mpirun(8) + run_words(plan, "--backend mpi --steps 3")));
  EXPECT_EQ(processes["backend"], "mpi");
  EXPECT_EQ(processes["ranks"], 8);
  EXPECT_EQ(losses(processes), losses(threads));
  EXPECT_EQ(processes["bytes_sent"], threads["bytes_sent"]);
  EXPECT_GT(processes["bytes_sent"].get<std::int64_t>(), 0);
  EXPECT_EQ(processes["peak_bytes"], threads["peak_bytes"]);
}

INSTANTIATE_TEST_SUITE_P(Models, RunMpiOnEight,
                         testing::Values(Trained{"gpt2", "gpt2_deep_tiny", "--mesh 2x4 --set train.microbatches=2"}, Trained{"zero3", "gpt2_tiny", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all"},
                                         Trained{"zero1", "mlp_tiny", "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all --set train.microbatches=2"},
                                         Trained{"stages", "gpt2_deep_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"},
                                         Trained{"chunks", "gpt2_deep_tiny", "--mesh 2x2 --set search.stages=2 --set search.chunks=2 --set 'search.schedule=\"zb_v\"' --set train.microbatches=4"},
                                         Trained{"experts", "mixtral_tiny", "--mesh 2x4"}, Trained{"batch_norm", "resnet_tiny", "--mesh 2x4 --set train.batch_coupling=allow"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Eight processes, in one stage and in two, lose what one device loses, up to rounding in float32.
TEST_F(RunMpi, EqualsOneDevice) {
  const std::string microbatches = " --set train.microbatches=2";
  const std::vector<double> one = losses(said(run_command(run_words(planned("gpt2_deep_tiny", "--mesh 1" + microbatches, "one.json", "a100x1"), "--steps 3"))));
  for (const std::string options : {"--mesh 2x4", "--mesh 2x2 --set search.stages=2"}) {
    expect_near(losses(said(run_command(mpirun(8) + run_words(planned("gpt2_deep_tiny", options + microbatches), "--backend mpi --steps 3")))), one, 1e-5);
  }
}

// Threads go on from what processes saved, and the other way; by the same plan to the bit, from stages to one stage up to rounding.
TEST_F(RunMpi, SavesForOtherBackendsAndPlans) {
  const std::string stages = planned("gpt2_deep_tiny", "--mesh 2x2 --set search.stages=2 --set train.microbatches=2", "stages.json"), whole = planned("gpt2_deep_tiny", "--mesh 2x4 --set train.microbatches=2", "whole.json");
  const std::vector<double> all = losses(said(run_command(run_words(stages, "--steps 4")))), rest(all.begin() + 2, all.end());
  said(run_command(mpirun(8) + run_words(stages, "--backend mpi --steps 2 --save " + path("processes.safetensors"))));
  said(run_command(run_words(stages, "--steps 2 --save " + path("threads.safetensors"))));
  EXPECT_EQ(read(path("processes.safetensors")), read(path("threads.safetensors")));
  EXPECT_EQ(losses(said(run_command(mpirun(8) + run_words(stages, "--backend mpi --steps 2 --resume " + path("threads.safetensors"))))), rest);
  expect_near(losses(said(run_command(mpirun(8) + run_words(whole, "--backend mpi --steps 2 --resume " + path("processes.safetensors"))))), rest, 1e-5);
}

// One message, of all.
TEST_F(RunMpi, RefusesOtherNumbersOfProcesses) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x4");
  for (const auto& [start, said] : {std::pair(mpirun(3), std::string("3 processes were started")), std::pair(std::string(), std::string("this process was started alone"))}) {
    const Outcome refused = run_command(start + run_words(plan, "--backend mpi"));
    EXPECT_EQ(refused.exit_code, 2);
    const std::string error = "meshwright: error: ";
    const std::size_t first = refused.errors.find(error);
    ASSERT_NE(first, std::string::npos) << refused.errors;
    EXPECT_THAT(refused.errors.substr(first), HasSubstr("the plan has 8 ranks, a process each, and " + said + "; start as many: mpirun -n 8 meshwright run PLAN --backend mpi"));
    EXPECT_THAT(refused.errors.substr(first + error.size()), Not(HasSubstr(error)));
    EXPECT_EQ(refused.output, "");
  }
}

TEST_F(RunMpi, SaysOnceWhatNoProcessCanDo) {
  const Outcome refused = run_command(mpirun(4) + run_words(path("no_plan.json"), "--backend mpi"));
  EXPECT_EQ(refused.exit_code, 2);
  const std::size_t first = refused.errors.find("no_plan.json: cannot read the plan");
  ASSERT_NE(first, std::string::npos) << refused.errors;
  EXPECT_THAT(refused.errors.substr(first + 1), Not(HasSubstr("no_plan.json: cannot read the plan")));
}

// A rank whose instruction fails, while the others wait for it.
TEST_F(RunMpi, EndsAllWithTheErrorOfARank) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome failed = run_command(mpirun(8, "MESHWRIGHT_FAILING_PROCESS=5 MESHWRIGHT_PLUGIN_PATH=" FIXTURES) + run_words(plan, "--backend mpi --steps 1000"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.errors, HasSubstr("rank 5, instruction "));
  EXPECT_THAT(failed.errors, HasSubstr("this kernel fails where it is told to; it ends all 8 processes"));
}

// A rank that is killed a second after it began says nothing any more: mpirun names it.
TEST_F(RunMpi, EndsAllWhenARankIsKilled) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x4 --set search.zero=3 --set search.batch_axes=all");
  write("killed.sh", "if [ \"$OMPI_COMM_WORLD_RANK\" = 3 ]; then (sleep 1; kill -9 $$) & fi\nexec \"$@\"\n");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome killed = run_command(mpirun(8) + "sh " + path("killed.sh") + " " + run_words(plan, "--backend mpi --steps 1000000"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(11));
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_THAT(killed.errors, HasSubstr("rank 3"));
  EXPECT_EQ(killed.output, "");
}

}  // namespace
}  // namespace meshwright::test
