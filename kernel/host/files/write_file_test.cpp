#include "files/write_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace meshwright::host {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WriteFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / ("meshwright_" + std::to_string(::getpid()) + "_" + test->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::ptrdiff_t file_count() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(WriteFile, ReplacesTheFileAndLeavesNothingElse) {
  const fs::path path = folder_ / "plan.json";
  ASSERT_TRUE(write_file_atomically(path.string(), "old, and longer").ok());
  ASSERT_TRUE(write_file_atomically(path.string(), "new").ok());
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(file_count(), 1);
}

TEST_F(WriteFile, MakesMissingFolders) {
  const fs::path path = folder_ / "a" / "b" / "plan.json";
  ASSERT_TRUE(write_file_atomically(path.string(), "x").ok());
  EXPECT_EQ(content_of(path), "x");
}

TEST_F(WriteFile, KeepsALinkALink) {
  ASSERT_TRUE(write_file_atomically((folder_ / "real").string(), "old").ok());
  fs::create_symlink("real", folder_ / "link");
  ASSERT_TRUE(write_file_atomically((folder_ / "link").string(), "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content_of(folder_ / "real"), "new");
}

TEST_F(WriteFile, WritesToADeviceDirectly) {
  EXPECT_TRUE(write_file_atomically("/dev/null", "x").ok());
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
}

TEST_F(WriteFile, AFailureLeavesTheOldFileAndNoOther) {
  ASSERT_TRUE(write_file_atomically((folder_ / "file").string(), "old").ok());
  const std::string inside = (folder_ / "file" / "plan.json").string();
  const Status status = write_file_atomically(inside, "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, inside + ": can't be written (Not a directory)");
  EXPECT_EQ(content_of(folder_ / "file"), "old");
  EXPECT_EQ(file_count(), 1);
  const Status full = write_file_atomically("/dev/full", "x");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message, "/dev/full: can't be written (No space left on device)");
}

// The program is killed while it writes, again and again, at another moment each time.
TEST_F(WriteFile, NoSignalLeavesAPart) {
  const std::string path = (folder_ / "file").string(), content(1 << 22, 'x');
  fs::create_directories(folder_);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      while (write_file_atomically(path, content).ok()) {
      }
      ::_exit(1);
    }
    ::usleep(static_cast<useconds_t>(1000 + 300 * i));
    ::kill(child, SIGTERM);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_EQ(entry.path().filename(), "file");
    EXPECT_TRUE(!fs::exists(path) || fs::file_size(path) == content.size());
  }
}

}  // namespace
}  // namespace meshwright::host
