// A file of what was called (called.h), for the table of docs/gpu.md (tools/write_gpu_table.py).
#pragma once

#include <string>
#include <utility>

namespace meshwright::cuda {

// Written when this is destroyed, with what has been called by then; that it can't be is a warning. As JSON: "driver",
// "recording" or "nvidia", and "called", names in the order of the table.
class CalledFile {
 public:
  // "": none.
  CalledFile(std::string path, bool records) : path_(std::move(path)), records_(records) {}
  CalledFile(CalledFile&& other) noexcept : path_(std::exchange(other.path_, {})), records_(other.records_) {}
  ~CalledFile();

 private:
  std::string path_;
  bool records_;
};

}  // namespace meshwright::cuda
