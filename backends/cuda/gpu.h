// The first GPU of this machine, for tests that run on it what all others run on the host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver.h"
#include "meshwright/result.h"
#include "op_writer.h"

namespace meshwright::cuda {

class Gpu {
 public:
  explicit Gpu(std::size_t bytes) : bytes_(bytes) {}
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // A stream, kernels and memory. Errors: the driver's; those of which `is_absent` says so: a test has nothing to run
  // on.
  Status open();
  static bool is_absent(const Status& opened) {
    return !opened && opened.error().message.find("no device") != std::string::npos;
  }

  // What `host` has goes to the GPU's memory, the work runs there, and what is there then goes to `host`.
  Status run(const std::vector<Work>& work, std::span<std::byte> host);
  // Until the stream is done.
  Status wait();

  [[nodiscard]] Driver& driver() { return *driver_; }
  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] std::byte* memory() const { return memory_; }

 private:
  const std::size_t bytes_;
  std::unique_ptr<Driver> driver_;
  Stream stream_;
  std::byte* memory_ = nullptr;
};

}  // namespace meshwright::cuda
