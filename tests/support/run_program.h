// Runs the program as a user would, and gives what it printed and its exit code. PROGRAM is its path.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace meshwright::test {

struct Outcome {
  int exit_code = -1;
  std::string output;  // standard output
  std::string errors;  // standard error
};

// A command for a shell.
inline Outcome run_command(const std::string& said) {
  const std::string errors = (std::filesystem::temp_directory_path() / ("meshwright-" + std::to_string(::getpid()))).string();
  const std::string command = "unset MESHWRIGHT_PLUGIN_PATH; " + said + " 2>" + errors;
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(errors);
  outcome.errors.assign(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(errors);
  return outcome;
}

// `arguments` is given to a shell.
inline Outcome run_program(const std::string& arguments) { return run_command(PROGRAM " " + arguments); }

}  // namespace meshwright::test
