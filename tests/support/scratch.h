// Files in a folder that goes with the process. For tests that hand files on; those whose files are their own take folder_test.h.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace meshwright::test {

inline std::string scratch(const std::string& name) {
  static const struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("meshwright-scratch-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  return (folder.path / name).string();
}

}  // namespace meshwright::test
