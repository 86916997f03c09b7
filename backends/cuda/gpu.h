// The first GPU of this machine, for tests that run on it what all others run on the host.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
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

  // A stream, kernels and memory. Errors: plugin_failed, "no device: REASON", where a test has nothing to run on; any
  // other is a failure.
  Status open();

  // What `host` has goes to the GPU's memory, the work runs there, and what is there then goes to `host`.
  Status run(const std::vector<Work>& work, std::span<std::byte> host);
  // As PlanProduct.
  Result<std::optional<std::size_t>> plan(const ProductShape& shape);
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
