#include "gpu.h"

#include <thread>

#include "loaded_driver.h"

namespace meshwright::cuda {

Gpu::~Gpu() {
  if (memory_ != nullptr) driver_->release(memory_);
  EntryPoint entry = EntryPoint::products_destroy;
  if (driver_ != nullptr) {
    driver_->release_products(entry);
    driver_->release_dnn(entry);
  }
  if (stream_.handle != nullptr) driver_->stream_destroy(stream_);
}

Status Gpu::open() {
  Result<std::unique_ptr<Driver>> driver = load_driver();
  if (!driver) return driver.error();
  driver_ = std::move(*driver);
  int found = 0;
  if (const Status status = check(*driver_, EntryPoint::get_device_count, driver_->get_device_count(found)); !status)
    return add_context("no device", status.error());
  if (Status status = check(*driver_, EntryPoint::set_device, driver_->set_device(0)); !status) return status;
  EntryPoint entry = EntryPoint::load_module;
  const Code code = driver_->load_kernels(entry);
  if (Status status = check(*driver_, entry, code); !status) return status;
  if (Status status = check(*driver_, EntryPoint::stream_create, driver_->stream_create(stream_)); !status)
    return status;
  return check(*driver_, EntryPoint::allocate, driver_->allocate(memory_, bytes_));
}

Status Gpu::run(const std::vector<Work>& work, std::span<std::byte> host) {
  const auto copy = [&](void* to, const void* from, CopyKind kind) {
    return check(*driver_, EntryPoint::copy, driver_->copy(to, from, host.size(), kind, stream_));
  };
  if (Status status = copy(memory_, host.data(), CopyKind::to_device); !status) return status;
  for (const Work& each : work) {
    EntryPoint entry = EntryPoint::launch;
    Code code = 0;
    if (const auto* product = std::get_if<Product>(&each)) {
      entry = EntryPoint::product;
      code = driver_->product(*product, stream_);
    } else if (const auto* call = std::get_if<DnnCall>(&each)) {
      code = driver_->run_dnn(*call, stream_, entry);
    } else {
      code = driver_->launch(std::get<Launch>(each), stream_);
    }
    if (Status status = check(*driver_, entry, code); !status) return status;
  }
  if (Status status = copy(host.data(), memory_, CopyKind::to_host); !status) return status;
  return wait();
}

Status Gpu::wait() {
  for (;;) {
    const Code code = driver_->stream_query(stream_);
    if (code != kNotReady) return check(*driver_, EntryPoint::stream_query, code);
    std::this_thread::yield();
  }
}

}  // namespace meshwright::cuda
