// Products by cuBLASLt on a GPU, against the same on the host. Skipped where there is no GPU or no such library.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "host_product.h"
#include "loaded_driver.h"
#include "random_product.h"

namespace meshwright::cuda {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20U;

// A device with memory and a stream.
class GpuProducts : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Driver>> driver = load_driver();
    if (!driver) GTEST_SKIP() << driver.error().message;
    driver_ = std::move(*driver);
    int devices = 0;
    if (const Code code = driver_->get_device_count(devices); code != 0 || devices == 0)
      GTEST_SKIP() << "no device: " << driver_->error_text(EntryPoint::get_device_count, code);
    expect_done(EntryPoint::set_device, driver_->set_device(0));
    expect_done(EntryPoint::allocate, driver_->allocate(memory_, kBytes));
    expect_done(EntryPoint::stream_create, driver_->stream_create(stream_));
  }
  void TearDown() override {
    if (memory_ == nullptr) return;
    EntryPoint entry = EntryPoint::products_destroy;
    const Code code = driver_->release_products(entry);
    expect_done(entry, code);
    expect_done(EntryPoint::stream_destroy, driver_->stream_destroy(stream_));
    expect_done(EntryPoint::release, driver_->release(memory_));
  }

  void expect_done(EntryPoint entry, Code code) {
    const Status status = check(*driver_, entry, code);
    ASSERT_TRUE(status) << status.error().message;
  }
  void finish() {
    Code code = kNotReady;
    while ((code = driver_->stream_query(stream_)) == kNotReady) std::this_thread::yield();
    expect_done(EntryPoint::stream_query, code);
  }
  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind) {
    expect_done(EntryPoint::copy, driver_->copy(to, from, bytes, kind, stream_));
    finish();
  }

  // On the device, and on the host by this backend's own kernel. `found`: whether the library has an algorithm.
  void compare(const DrawnProduct& drawn, const std::vector<std::byte>& block, bool& found) {
    ProductPlan plan;
    EntryPoint entry = EntryPoint::choose_algorithm;
    const Code code = driver_->plan_product(drawn.shape, plan, entry);
    ASSERT_NO_FATAL_FAILURE(expect_done(entry, code));
    found = plan.is_found;
    if (!found) return;
    ASSERT_LE(plan.workspace_bytes, kWorkspace);
    ASSERT_LE(block.size(), kBytes);
    std::vector<std::byte> made = block, expected = block;
    ASSERT_NO_FATAL_FAILURE(copy(memory_, block.data(), block.size(), CopyKind::to_device));
    ASSERT_NO_FATAL_FAILURE(
        expect_done(EntryPoint::product, driver_->product(drawn.in(memory_, plan.workspace_bytes), stream_)));
    ASSERT_NO_FATAL_FAILURE(finish());
    ASSERT_NO_FATAL_FAILURE(copy(made.data(), memory_, made.size(), CopyKind::to_host));
    const Launch launch = launch_of(drawn.in(expected.data(), 0));
    kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
    const std::vector<float> numbers = drawn.numbers_of(made), should_be = drawn.numbers_of(expected);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_LE(std::abs(numbers[i] - should_be[i]), drawn.tolerance() * std::max(1.0F, std::abs(should_be[i])))
          << "at " << i << ": " << numbers[i] << ", and should be " << should_be[i];
    }
  }

  static constexpr std::size_t kBytes = std::size_t{128} << 20U;
  std::unique_ptr<Driver> driver_;
  std::byte* memory_ = nullptr;
  Stream stream_;
};

// Of all kinds of places, of which the library must know most, and some with each activation.
TEST_F(GpuProducts, AreThoseOfTheHost) {
  constexpr int kProducts = 400;
  ProductDrawer drawer(5);
  int plain = 0, planned = 0;  // of those without an activation
  std::set<Activation> activations;
  for (int i = 0; i < kProducts; ++i) {
    DrawnProduct drawn = drawer.draw(i % 10 == 0 ? 300 : 40, kWorkspace);
    if (i % 3 != 0) drawn.halve(i % 3 == 1 ? DType::bfloat16 : DType::float32);
    if (i == 0) {  // which any library must have
      drawn.shape.activation = Activation::none;
      drawn.shape.keeps = false;
    }
    const std::vector<std::byte> block = drawn.filled(drawer.numbers(drawn.workspace));
    bool found = false;
    SCOPED_TRACE(to_string(drawn));
    compare(drawn, block, found);
    if (testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count() > 10) return;
    if (i == 0 && !found) GTEST_SKIP() << "no cuBLASLt, or no algorithm for the first product";
    const bool is_plain = drawn.shape.activation == Activation::none;
    plain += is_plain ? 1 : 0;
    planned += is_plain && found ? 1 : 0;
    if (found) activations.insert(drawn.shape.activation);
  }
  EXPECT_GE(planned, plain * 9 / 10);
  EXPECT_EQ(activations.size(), 3U);
}

}  // namespace
}  // namespace meshwright::cuda
