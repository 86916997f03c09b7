// `meshwright run --backend cuda` as one process a rank, on its recording driver: started as torchrun, srun and mpirun
// start them, processes compute what `reference` does, and end together.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>

#include "trained_on_gpus.h"

namespace meshwright::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Of this machine; nobody has it when it is asked for.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ::close(socket);
  return ntohs(at.sin_port);
}

// The environment of a rank.
std::string torchrun(int rank, int size) {
  const std::string number = std::to_string(rank);
  return "RANK=" + number + " LOCAL_RANK=" + number + " WORLD_SIZE=" + std::to_string(size) +
         " MASTER_ADDR=localhost MASTER_PORT=1 ";
}
std::string srun(int rank, int size) {
  const std::string number = std::to_string(rank);
  return "SLURM_PROCID=" + number + " SLURM_LOCALID=" + number + " SLURM_NTASKS=" + std::to_string(size) + " ";
}

class RunProcesses : public Trains {
 protected:
  using Words = std::function<std::string(int rank)>;

  // What became of each rank that is started.
  std::vector<Outcome> started(int ranks, const Words& words) const {
    const std::string port = "MESHWRIGHT_PORT=" + std::to_string(free_port()) + " ";
    std::string script;
    const auto file = [this](int rank, const char* of) { return path(std::to_string(rank) + "." + of); };
    for (int rank = 0; rank < ranks; ++rank)
      script += "(" + port + words(rank) + " >" + file(rank, "out") + " 2>" + file(rank, "err") + "; echo $? >" +
                file(rank, "code") + ") &\n";
    write("start.sh", script + "wait\n");
    EXPECT_EQ(run_command("timeout 120 sh " + path("start.sh")).exit_code, 0);
    std::vector<Outcome> outcomes;
    for (int rank = 0; rank < ranks; ++rank)
      outcomes.push_back({std::stoi("0" + read(file(rank, "code"))), read(file(rank, "out")), read(file(rank, "err"))});
    return outcomes;
  }

  // One result, the first one's.
  json said_by_first(const std::vector<Outcome>& outcomes) const {
    for (std::size_t rank = 1; rank < outcomes.size(); ++rank) {
      EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].errors;
      EXPECT_EQ(outcomes[rank].output, "") << rank;
    }
    return said(outcomes.front());
  }
  std::vector<Outcome> trained(int ranks, const std::string& plan, const std::string& options) const {
    return started(ranks, [&](int rank) {
      return torchrun(rank, ranks) +
             run_words(plan, kRecording + options + " --set emit.cuda.seed=" + std::to_string(rank));
    });
  }
  // Each but one that was killed says it, and ends with this code.
  static void expect_all_say(const std::vector<Outcome>& outcomes, int code, const std::string& why, int killed = -1) {
    for (int rank = 0; rank < static_cast<int>(outcomes.size()); ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      if (rank == killed) continue;
      EXPECT_EQ(outcome.exit_code, code) << rank << ": " << outcome.errors;
      EXPECT_THAT(outcome.errors, HasSubstr(why)) << rank;
      EXPECT_EQ(outcome.output, "");
    }
  }
};

class RunProcessesOn : public RunProcesses, public testing::WithParamInterface<Trained> {};

TEST_P(RunProcessesOn, IsWhatReferenceComputes) {
  const std::string plan = planned(GetParam().model, GetParam().options, "plan.json", GetParam().cluster);
  const json reference = said(run_command(run_words(plan, "--steps 3")));
  const int ranks = reference["ranks"].get<int>();
  const json processes = said_by_first(trained(ranks, plan, "--steps 3"));
  EXPECT_EQ(processes["backend"], "cuda");
  EXPECT_EQ(processes["ranks"], ranks);
  ASSERT_EQ(losses(processes).size(), 3U);
  expect_same(processes, reference);
  // In one process they are the same, to the bit.
  EXPECT_EQ(losses(said(run_command(run_words(plan, std::string(kRecording) + "--steps 3")))), losses(processes));
}

INSTANTIATE_TEST_SUITE_P(
    Models, RunProcessesOn,
    testing::Values(
        Trained{"mlp1", "mlp_tiny", "a100x1", "--mesh 1"},
        Trained{"mlp4", "mlp_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"mlp8_zero1", "mlp_tiny", "slow8",
                "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all --set train.microbatches=2"},
        Trained{"gpt4", "gpt2_tiny", "a100x4", "--mesh 2x2 --set search.batch_axes=0"},
        Trained{"gpt4_zero3", "gpt2_tiny", "a100x4", "--mesh 4 --set search.zero=3 --set search.batch_axes=all"},
        Trained{"gpt8", "gpt2_tiny", "slow8", "--mesh 2x4"},
        Trained{"stages2", "gpt2_deep_tiny", "slow8", "--mesh 2x2 --set search.stages=2 --set train.microbatches=4"},
        Trained{"chunks_v", "t5_tiny", "slow8",
                "--mesh 4 --set search.stages=2 --set search.chunks=2 --set search.schedule=zb_v --set "
                "train.microbatches=4"},
        Trained{"densenet4", "densenet_tiny", "a100x4",
                "--mesh 2x2 --set search.batch_axes=0 --set train.batch_coupling=allow --set train.optimizer=sgd"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(RunProcesses, AreFoundAsSrunStartsThem) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x2 --set search.batch_axes=0", "plan.json", "a100x4");
  const json processes = said_by_first(
      started(4, [&](int rank) { return srun(rank, 4) + run_words(plan, std::string(kRecording) + "--steps 2"); }));
  expect_near(losses(processes), losses(said(run_command(run_words(plan, "--steps 2")))), 1e-5);
}

// Processes go on from what one process saved, and the other way.
TEST_F(RunProcesses, SaveForOtherBackends) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x4 --set search.zero=1 --set search.batch_axes=all");
  const std::vector<double> all = losses(said(run_command(run_words(plan, "--steps 4"))));
  said_by_first(trained(8, plan, "--steps 2 --save " + path("processes.safetensors")));
  said(run_command(run_words(plan, std::string(kRecording) + "--steps 2 --save " + path("one.safetensors"))));
  EXPECT_EQ(read(path("processes.safetensors")), read(path("one.safetensors")));
  expect_near(losses(said(run_command(run_words(plan, "--steps 2 --resume " + path("processes.safetensors"))))),
              {all[2], all[3]}, 1e-5);
  said(run_command(run_words(plan, "--steps 2 --save " + path("threads.safetensors"))));
  expect_near(losses(said_by_first(trained(8, plan, "--steps 2 --resume " + path("threads.safetensors")))),
              {all[2], all[3]}, 1e-5);
}

TEST_F(RunProcesses, EndWhenOneIsKilled) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x2 --set search.batch_axes=0", "plan.json", "a100x4");
  write("killed.sh", "(sleep 2; kill -9 $$) & exec \"$@\"\n");
  for (const int killed : {2, 0}) {
    const auto begin = Clock::now();
    const std::vector<Outcome> outcomes = started(4, [&](int rank) {
      return torchrun(rank, 4) + (rank == killed ? "sh " + path("killed.sh") + " " : std::string()) +
             run_words(plan, std::string(kRecording) + "--steps 1000000");
    });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
    expect_all_say(outcomes, 4, "rank " + std::to_string(killed) + (killed == 0 ? " has gone" : " (process "), killed);
    expect_all_say(outcomes, 4, "has gone: it ended, or its machine can't be reached", killed);
    expect_all_say(outcomes, 4, "; it ends all 4 processes", killed);
  }
}

// Its connection lives, and it does nothing more.
TEST_F(RunProcesses, EndWhenOneHangsInACall) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x2 --set search.batch_axes=0", "plan.json", "a100x4");
  const auto begin = Clock::now();
  const std::vector<Outcome> outcomes = started(4, [&](int rank) {
    return torchrun(rank, 4) +
           run_words(plan, std::string(kRecording) + "--steps 1000000 --set emit.cuda.hang_seconds=" +
                               (rank == 2 ? "2 --set 'emit.cuda.failures=[\"ncclAllReduce:50:hang\"]'" : "60"));
  });
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
  expect_all_say(outcomes, 4, "the limit that emit.cuda.hang_seconds sets: rank 2 is at instruction ");
}

TEST_F(RunProcesses, NameWhoIsMissing) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x2", "plan.json", "a100x4"),
                    options = std::string(kRecording) + "--set emit.cuda.arrival_seconds=2";
  const auto begin = Clock::now();
  expect_all_say(started(3, [&](int rank) { return torchrun(rank, 4) + run_words(plan, options); }), 4,
                 "rank 3 of 4 did not come to localhost:");
  expect_all_say(started(2, [&](int rank) { return torchrun(rank + 1, 4) + run_words(plan, options); }), 4,
                 "rank 0 did not come to localhost:");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(RunProcesses, RefuseOtherWorlds) {
  const std::string plan = planned("mlp_tiny", "--mesh 2x2", "plan.json", "a100x4"),
                    words = run_words(plan, kRecording);
  for (const int size : {1, 3}) {
    const std::vector<Outcome> outcomes = started(size, [&](int rank) { return torchrun(rank, size) + words; });
    EXPECT_THAT(outcomes.front().errors,
                HasSubstr("the plan has 4 ranks, a process each, and torchrun started " + std::to_string(size)));
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
  }
  const auto refused = [&](const std::string& environment) {
    const Outcome outcome = run_command(environment + words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output, "");
    return outcome.errors;
  };
  EXPECT_THAT(refused("RANK=0 WORLD_SIZE=4 "), HasSubstr("LOCAL_RANK is not set in the environment"));
  EXPECT_THAT(refused("WORLD_SIZE=4 LOCAL_RANK=0 "), HasSubstr("RANK is not set in the environment"));
  EXPECT_THAT(refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 "), HasSubstr("MASTER_ADDR is not set in the environment"));
  EXPECT_THAT(refused("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_LOCALID=0 "), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(refused("RANK=4 WORLD_SIZE=4 LOCAL_RANK=0 "), HasSubstr("RANK is \"4\" in the environment"));
  EXPECT_THAT(run_command(torchrun(0, 4) + words + " --set emit.cuda.loopback=true").errors,
              HasSubstr("emit.cuda.loopback lets the ranks of one process share a GPU"));
  // All in this process, whatever the environment says.
  EXPECT_EQ(said(run_command(torchrun(0, 3) + words + " --set emit.cuda.launcher=none"))["ranks"], 4);
}

// What only one is given, and what each is given alike.
TEST_F(RunProcesses, EndWithTheErrorOfOne) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x2 --set search.batch_axes=0", "plan.json", "a100x4"),
                    other = planned("gpt2_tiny", "--mesh 4 --set search.batch_axes=all", "other.json", "a100x4");
  // Of rank 2 alone.
  const auto with = [&](const std::string& of_two, const std::string& of_others = "--steps 1000000") {
    return started(4, [&](int rank) {
      return torchrun(rank, 4) + run_words(plan, kRecording + (rank == 2 ? of_two : of_others));
    });
  };
  const auto begin = Clock::now();
  const std::string failed = ": the failure that was asked for (error 2)", steps = "--steps 1000000 ";
  for (const std::string entry : {"cudaGetDeviceCount", "cudaMalloc", "cuModuleLoadData", "ncclCommInitRank",
                                  "cudaMemcpyAsync", "cublasLtMatmul"}) {
    expect_all_say(with(steps + "--set 'emit.cuda.failures=[\"" + entry + ":1:2\"]'"), 4, entry + failed);
  }
  // Rank 0 is the first one of a group, and so makes its id.
  expect_all_say(started(4,
                         [&](int rank) {
                           const std::string fails = "--set 'emit.cuda.failures=[\"ncclGetUniqueId:1:2\"]'";
                           return torchrun(rank, 4) + run_words(plan, kRecording + (rank == 0 ? fails : ""));
                         }),
                 4, "rank 0: ncclGetUniqueId" + failed);
  const std::vector<Outcome> in_step = with(steps + "--set 'emit.cuda.failures=[\"ncclAllReduce:50:2\"]'");
  expect_all_say(in_step, 4, "rank 2, instruction ");
  expect_all_say(in_step, 4, "ncclAllReduce" + failed);
  expect_all_say(with(steps + "--set emit.cuda.omitted_wait=1"), 1, "rank 2: ");
  expect_all_say(with("--steps 2"), 1, "start all ranks with the same plan and options");
  EXPECT_THAT(started(4, [&](int rank) { return torchrun(rank, 4) + run_words(rank == 2 ? other : plan, kRecording); })
                  .front()
                  .errors,
              HasSubstr("rank 2 has another program than rank 0"));
  const std::vector<Outcome> lacking = started(
      4, [&](int rank) { return torchrun(rank, 4) + run_words(rank == 2 ? path("no.json") : plan, kRecording); });
  EXPECT_THAT(lacking.front().errors, AllOf(HasSubstr("rank 2: "), HasSubstr("no.json: cannot read the plan")));
  for (const Outcome& outcome : lacking) EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
}

#ifdef MPIRUN
std::string mpirun(int ranks) {
  return "MESHWRIGHT_PORT=" + std::to_string(free_port()) +
         " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 " MPIRUN " --oversubscribe -n " +
         std::to_string(ranks) + " ";
}

TEST_F(RunProcesses, AreFoundAsMpirunStartsThem) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x4"),
                    words = run_words(plan, std::string(kRecording) + "--steps 3");
  const json reference = said(run_command(run_words(plan, "--steps 3"))),
             processes = said(run_command(mpirun(8) + words));
  expect_near(losses(processes), losses(reference), 1e-5);
  EXPECT_EQ(processes["bytes_sent"], reference["bytes_sent"]);
  const Outcome refused = run_command(mpirun(3) + words);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("the plan has 8 ranks, a process each, and mpirun started 3"));
}

TEST_F(RunProcesses, EndWhenOneIsKilledUnderMpirun) {
  const std::string plan = planned("gpt2_tiny", "--mesh 2x2 --set search.batch_axes=0", "plan.json", "a100x4");
  write("killed.sh", "if [ \"$OMPI_COMM_WORLD_RANK\" = 3 ]; then (sleep 2; kill -9 $$) & fi\nexec \"$@\"\n");
  const auto begin = Clock::now();
  const Outcome killed = run_command(mpirun(4) + "sh " + path("killed.sh") + " " +
                                     run_words(plan, std::string(kRecording) + "--steps 1000000"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_THAT(killed.errors, HasSubstr("rank 3"));
  EXPECT_EQ(killed.output, "");
}
#endif

}  // namespace
}  // namespace meshwright::test
