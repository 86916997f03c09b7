#include "launched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace meshwright {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<std::optional<Launched>> found(const Variables& variables) {
  return find_launched([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

void expect_place(const Variables& variables, int rank, int size, int local, const std::string& address, int port) {
  const auto launched = found(variables);
  ASSERT_TRUE(launched) << launched.error().message;
  ASSERT_TRUE(*launched);
  EXPECT_EQ((*launched)->rank, rank);
  EXPECT_EQ((*launched)->size, size);
  EXPECT_EQ((*launched)->local_rank, local);
  EXPECT_EQ((*launched)->address, address);
  EXPECT_EQ((*launched)->port, port);
}

const Variables kTorchrun = {
    {"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29400"}};
const Variables kMpirun = {
    {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
const Variables kSrun = {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "5"}};

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

TEST(Launched, IsFoundInTheEnvironment) {
  const auto alone = found({{"PATH", "/bin"}, {"MASTER_PORT", "1"}, {"SLURM_NTASKS", "8"}});
  ASSERT_TRUE(alone);
  EXPECT_FALSE(*alone);
  expect_place(kTorchrun, 9, 16, 1, "node0", 29401);
  expect_place(kMpirun, 3, 8, 3, "127.0.0.1", 29501);
  expect_place(kSrun, 5, 8, 5, "127.0.0.1", 29501);
  expect_place(with(kSrun, kMpirun), 3, 8, 3, "127.0.0.1", 29501);
  expect_place(with(kSrun, with(kMpirun, kTorchrun)), 9, 16, 1, "node0", 29401);
  expect_place(with(kTorchrun, {{"MESHWRIGHT_PORT", "700"}}), 9, 16, 1, "node0", 700);
  expect_place(with(kMpirun, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "12"}}), 3, 8, 3, "10.0.0.1", 13);
}

void expect_refused(const Variables& variables, const std::string& why) {
  const auto launched = found(variables);
  ASSERT_FALSE(launched) << why;
  EXPECT_EQ(launched.error().code, ErrorCode::bad_input);
  EXPECT_THAT(launched.error().message, HasSubstr(why));
}

TEST(Launched, NamesWhatIsHalfSet) {
  for (const Variables& all : {kTorchrun, kMpirun, kSrun}) {
    for (const auto& [name, value] : all) {
      if (name == "SLURM_PROCID") continue;  // without it there is no srun
      Variables some = all;
      some.erase(name);
      expect_refused(some, name + " is not set in the environment");
    }
  }
  expect_refused({{"LOCAL_RANK", "0"}}, "WORLD_SIZE is not set in the environment, and others of torchrun are");
}

TEST(Launched, NamesWhatIsNoNumberInRange) {
  expect_refused(with(kTorchrun, {{"RANK", "16"}}), "RANK is \"16\" in the environment; it is a number from 0 to 15");
  expect_refused(with(kTorchrun, {{"RANK", "1x"}}), "RANK is \"1x\"");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE is \"0\"");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "99999999999999999999"}}), "WORLD_SIZE is \"9");
  expect_refused(with(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT is \"65536\"");
  expect_refused(with(kTorchrun, {{"MASTER_PORT", "65535"}}), "set MESHWRIGHT_PORT");
  expect_refused(with(kTorchrun, {{"MESHWRIGHT_PORT", "-1"}}), "MESHWRIGHT_PORT is \"-1\"");
}

TEST(Launched, WantsAnAddressOnSeveralMachines) {
  const std::string why = "MASTER_ADDR is not set in the environment, and the processes are on several machines";
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}), why);
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), why);
  expect_refused(with(kSrun, {{"SLURM_NNODES", "2"}}), why);
  expect_place(with(kSrun, {{"SLURM_NNODES", "2"}, {"SLURM_STEP_NUM_NODES", "1"}}), 5, 8, 5, "127.0.0.1", 29501);
  expect_place(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}), 3, 8, 3, "127.0.0.1", 29501);
}

}  // namespace
}  // namespace meshwright
