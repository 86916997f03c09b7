#include "files/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/toml_config.h"
#include "files/file_hash.h"
#include "files/plan_reader.h"

namespace meshwright::host {
namespace {

class NoOps final : public OpTable {
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return nullptr; }
};

class InputFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("input_file" + std::to_string(::getpid()));
};

TEST_F(InputFile, PipesFoldersAndDevicesAreRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& special : {path("pipe"), folder_.string(), std::string("/dev/zero")}) {
    EXPECT_FALSE(check_regular(special)) << special;
    EXPECT_FALSE(read_plan(special, NoOps())) << special;
    EXPECT_FALSE(read_config(special, {})) << special;
  }
  EXPECT_TRUE(check_regular(path("nothing"))) << "whoever opens it says that it is not there";
}

TEST_F(InputFile, AModelThatChangedIsRefused) {
  Plan plan;
  plan.model_path = path("model.pt2");
  EXPECT_TRUE(check_planned_model(plan, false)) << "a model that is gone";
  std::ofstream(plan.model_path) << "weights";
  plan.model_hash = hash_file(plan.model_path);
  EXPECT_TRUE(check_planned_model(plan, false));
  std::ofstream(plan.model_path) << "other weights";
  const Status changed = check_planned_model(plan, false);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::bad_input);
  EXPECT_NE(changed.error().message.find("has changed since it was planned"), std::string::npos);
  EXPECT_TRUE(check_planned_model(plan, true));
}

}  // namespace
}  // namespace meshwright::host
