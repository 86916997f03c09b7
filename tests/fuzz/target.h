// What the fuzz targets share. Each target is one function over bytes (libFuzzer's), linked with libFuzzer in a build
// for fuzzing and with replay.cpp in an ordinary one, where it runs the files in corpus/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "meshwright/op.h"
#include "meshwright/result.h"
#include "plugins/plugin_host.h"

namespace meshwright::fuzz {

// The plugins beside the program, opened once.
host::PluginHost& plugins();

// Ends the process with a message unless an input was read, or refused as input is: no fault of ours, of no plugin.
void expect_refusal(const Error& error);

// The families of all plugins.
const OpTable& ops();

// Does with a graph what every command does first: rules, costs, gradients of each node, where the op families are
// there.
void exercise(Graph graph);

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_ = -1;
};

// A .pt2 archive with this models/model.json.
std::string zipped_model(std::string_view json);

}  // namespace meshwright::fuzz
