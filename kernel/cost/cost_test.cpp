#include "meshwright/cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace meshwright {
namespace {

const MeshAxis kAxis{4, 5e-6, 1 / 20e9, "link"};

TEST(CollectiveSeconds, FollowsTheRingAtLargeSizes) {
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::all_reduce, kAxis, 1e9), 2 * 3 * 5e-6 + 2 * 0.75 * 1e9 / 20e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::all_gather, kAxis, 1e9), 3 * 5e-6 + 3 * 1e9 / 20e9);
  EXPECT_DOUBLE_EQ(collective_seconds(CollectiveKind::reduce_scatter, kAxis, 1e9), 3 * 5e-6 + 0.75 * 1e9 / 20e9);
}

TEST(CollectiveSeconds, IsMonotoneAndReduceScatterIsNeverDearerThanAllReduce) {
  for (const std::int64_t size : {2, 3, 8, 64}) {
    const MeshAxis axis{size, 5e-6, 1 / 20e9, "link"};
    for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce,
                            CollectiveKind::all_to_all, CollectiveKind::permute}) {
      double last = 0;
      for (double bytes = 1; bytes < 1e10; bytes *= 3) {
        const double seconds = collective_seconds(kind, axis, bytes);
        EXPECT_GE(seconds, last) << name(kind) << " over " << size << " at " << bytes;
        last = seconds;
        EXPECT_LE(collective_seconds(CollectiveKind::reduce_scatter, axis, bytes),
                  collective_seconds(CollectiveKind::all_reduce, axis, bytes));
      }
    }
  }
}

TEST(ComputeSeconds, IsTheSlowerOfArithmeticAndMemoryPlusALaunch) {
  CostProfile profile;
  profile.device.memory_bytes_per_second = 1e12;
  profile.device.vector_flops_per_second = 1e13;
  profile.device.matrix_flops_per_second[DType::bfloat16] = 1e14;
  profile.device.launch_seconds = 1e-6;
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.matrix_flops = 1e12, .dtype = DType::bfloat16}), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.matrix_flops = 1e12, .dtype = DType::float32}), 1e-1 + 1e-6);
  EXPECT_DOUBLE_EQ(compute_seconds(profile, {.vector_flops = 1, .bytes = 1e9}), 1e-3 + 1e-6);
  EXPECT_EQ(compute_seconds(profile, {}), 0);
}

TEST(ToTicks, WhatCannotBeCountedCostsAsMuchAsCan) {
  EXPECT_EQ(to_ticks(1e300), kForbidden - 1);
  EXPECT_EQ(to_ticks(HUGE_VAL), kForbidden - 1);
  EXPECT_EQ(to_ticks(std::nan("")), kForbidden - 1);
  EXPECT_EQ(to_ticks(-1), 0);
}

}  // namespace
}  // namespace meshwright
