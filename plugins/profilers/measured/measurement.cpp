#include "measurement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "curve.h"
#include "gemm.h"
#include "rank_timer.h"

namespace meshwright {

namespace {

constexpr std::int64_t kProductSizes[] = {32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
constexpr std::size_t kLeastElements = 256;
constexpr std::size_t kMostElements = std::size_t{256} << 16;  // of a vector; three: 3 KB to 201 MB
constexpr std::size_t kElementsInCache = 2048;  // of a vector that the first cache of any CPU of today holds twice

// A library call has no effect that the compiler sees, and may be left out, unless someone could read its result.
void keep(const float* data) { asm volatile("" : : "g"(data) : "memory"); }

// One rank's own memory, written once so that it is really there. Values near 1 keep products and sums from overflowing
// and from being denormal, which are slower.
std::shared_ptr<std::vector<float>> memory_of(std::size_t elements) {
  auto memory = std::make_shared<std::vector<float>>(elements);
  for (std::size_t i = 0; i < elements; ++i) (*memory)[i] = 0.5F + static_cast<float>(i % 64) / 64;
  return memory;
}

RankWork product(const Gemm& size) {
  auto a = memory_of(static_cast<std::size_t>(size.m * size.k));
  auto b = memory_of(static_cast<std::size_t>(size.k * size.n));
  auto c = memory_of(static_cast<std::size_t>(size.m * size.n));
  return [=] {
    if (!gemm(size, a->data(), b->data(), c->data())) throw std::runtime_error("the library refused a matrix product");
    keep(c->data());
  };
}

RankWork sum_of_vectors(std::size_t elements) {
  auto a = memory_of(elements), b = memory_of(elements), c = memory_of(elements);
  return [=] {
    const float *left = a->data(), *right = b->data();
    float* out = c->data();
    for (std::size_t i = 0; i < elements; ++i) out[i] = left[i] + right[i];
    keep(out);
  };
}

RankWork exponentials(std::size_t elements) {
  auto a = memory_of(elements), b = memory_of(elements);
  return [=] {
    const float* in = a->data();
    float* out = b->data();
    for (std::size_t i = 0; i < elements; ++i) out[i] = std::exp(in[i]);
    keep(out);
  };
}

class Measurement {
 public:
  explicit Measurement(const MeasurementSettings& settings) : settings_(settings) {}

  [[nodiscard]] double launch_seconds() const {
    return seconds([](int) { return product({.m = 1, .n = 1, .k = 1}); });
  }

  // Of AB, which the forward computes, and of ABᵀ and AᵀB, which the backward does: their mean.
  [[nodiscard]] RateCurve products(double launch) const {
    std::vector<double> flops, taken;
    for (const std::int64_t size : kProductSizes) {
      double sum = 0;
      for (const auto& [transpose_a, transpose_b] : {std::pair(false, false), {false, true}, {true, false}}) {
        const Gemm gemm{.m = size, .n = size, .k = size, .transpose_a = transpose_a, .transpose_b = transpose_b};
        sum += seconds([&](int) { return product(gemm); });
      }
      flops.push_back(2 * std::pow(static_cast<double>(size), 3));
      // The cost model adds a launch to what the curve says. It is never most of a product of these sizes.
      taken.push_back(std::max(sum / 3 - launch, sum / 6));
    }
    return rising_curve(flops, taken);
  }

  [[nodiscard]] RateCurve memory() const {
    std::vector<double> bytes, taken;
    for (std::size_t elements = kLeastElements; elements <= kMostElements; elements *= 4) {
      bytes.push_back(3.0 * sizeof(float) * static_cast<double>(elements));
      taken.push_back(seconds([&](int) { return sum_of_vectors(elements); }));
    }
    return rising_curve(bytes, taken);
  }

  [[nodiscard]] double exponentials_per_second() const {
    return kElementsInCache / seconds([](int) { return exponentials(kElementsInCache); });
  }

 private:
  [[nodiscard]] double seconds(const RankWorkMaker& make) const {
    // A clock that stands still must not make a rate infinite.
    return std::max(seconds_of(make, settings_.ranks, settings_.point_seconds), 1e-10);
  }

  MeasurementSettings settings_;
};

}  // namespace

DeviceSpec measured_device(DeviceSpec device, const MeasurementSettings& settings) {
  const Measurement measurement(settings);
  device.launch_seconds = measurement.launch_seconds();
  device.product_curves[DType::float32] = measurement.products(device.launch_seconds);
  device.memory_curve = measurement.memory();
  device.vector_flops_per_second = measurement.exponentials_per_second();  // an elementwise op is a FLOP an element
  // What prices without the curves multiplies these with the device's efficiencies, and so comes to what was measured.
  const std::vector<double>& rates = device.product_curves[DType::float32].rates;
  device.matrix_flops_per_second[DType::float32] = *std::ranges::max_element(rates) / device.matrix_efficiency;
  device.memory_bytes_per_second = device.memory_curve.rates.back() / device.memory_efficiency;
  return device;
}

}  // namespace meshwright
