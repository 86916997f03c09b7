// Where the fixtures are, and folders that a test may fill.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace meshwright::host {

inline std::string fixture(const std::string& name) { return std::string(FIXTURES) + "/" + name; }

// `message` without the fixtures' folder, so that expectations read the same on every machine.
inline std::string without_folder(std::string message) {
  const std::string folder = std::string(FIXTURES) + "/";
  for (std::size_t at = message.find(folder); at != std::string::npos; at = message.find(folder)) {
    message.erase(at, folder.size());
  }
  return message;
}

// A folder of its own for the running test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            ("meshwright_" + std::to_string(::getpid()) + "_" + test->test_suite_name() + "_" + test->name());
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace meshwright::host
