// The third way to write a kernel, for what is long: on a GPU the kThreads threads of a block share an index; on the
// host there is one thread. All threads of a block come to each of the functions below, which are CUB's on a GPU and
// plain code on the host. Sums are rounded otherwise there than on a GPU; each gives the same bits every time. At least
// two blocks share a multiprocessor, so that one computes while another waits.
//
//   MESHWRIGHT_BLOCK_KERNEL(total, TotalArguments) {
//     const double* row = arguments.rows + index * arguments.extent;
//     double sum = 0;
//     for (int64_t i = thread; i < arguments.extent; i += kThreads) sum += row[i];
//     sum = sum_of_block(sum);
//     if (thread == 0) arguments.totals[index] = sum;
//   }
#pragma once

#include "kernel.h"

#if defined(__CUDACC__)
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#define MESHWRIGHT_SHARED __shared__  // memory that is one for all threads of a block
#define MESHWRIGHT_BLOCK_KERNEL(name, Arguments)                                                                    \
  __device__ inline void name##_at(const Arguments& arguments, int64_t index, int thread);                          \
  extern "C" __global__ void __launch_bounds__(kBlock, 2) name(const Arguments arguments, int64_t count) {          \
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) name##_at(arguments, i, static_cast<int>(threadIdx.x)); \
  }                                                                                                                 \
  __device__ inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index,     \
                                   [[maybe_unused]] int thread)
#else
#include <algorithm>
#define MESHWRIGHT_SHARED
#define MESHWRIGHT_BLOCK_KERNEL(name, Arguments)                                                     \
  inline void name##_at(const Arguments& arguments, int64_t index, int thread);                      \
  inline void name##_on_host(const void* arguments, int64_t count) {                                 \
    for (int64_t i = 0; i < count; ++i) name##_at(*static_cast<const Arguments*>(arguments), i, 0);  \
  }                                                                                                  \
  inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index, \
                        [[maybe_unused]] int thread)
#endif

namespace meshwright::cuda {

// Memory that a block's threads share is used again as soon as such a function has returned: hence __syncthreads.
#if defined(__CUDACC__)
constexpr int kThreads = kBlock;

// What threads have written until here others may read from here on.
__device__ inline void meet_block() { __syncthreads(); }

// Thread 0 gets the sum of what all threads have.
template <class Real>
__device__ inline Real sum_of_block(Real own) {
  using Reduce = cub::BlockReduce<Real, kBlock>;
  __shared__ typename Reduce::TempStorage memory;
  const Real sum = Reduce(memory).Sum(own);
  __syncthreads();
  return sum;
}

// Each thread gets what thread 0 has.
template <class Real>
__device__ inline Real kept_by_block(Real own) {
  __shared__ Real kept;
  if (threadIdx.x == 0) kept = own;
  __syncthreads();
  const Real all = kept;
  __syncthreads();
  return all;
}

// Thread 0 gets what is left of all of them when `choose` has chosen one of two again and again.
template <class Item, class Choose>
__device__ inline Item chosen_of_block(Item own, Choose choose) {
  using Reduce = cub::BlockReduce<Item, kBlock>;
  __shared__ typename Reduce::TempStorage memory;
  const Item chosen = Reduce(memory).Reduce(own, choose);
  __syncthreads();
  return chosen;
}

// Each thread gets the sum of what the threads before it have; `total`: of what all have.
template <class Real>
__device__ inline Real sum_before_in_block(Real own, Real& total) {
  using Scan = cub::BlockScan<Real, kBlock>;
  __shared__ typename Scan::TempStorage memory;
  Real before = 0;
  Scan(memory).ExclusiveSum(own, before, total);
  __syncthreads();
  return before;
}

// Sorts the items of all threads: thread t gets those from place t * kItems on. Of equal ones any may come first.
template <class Item, int kItems, class Before>
__device__ inline void sort_block(Item (&items)[kItems], Before before) {
  using Sort = cub::BlockMergeSort<Item, kBlock, kItems>;
  __shared__ typename Sort::TempStorage memory;
  Sort(memory).Sort(items, before);
  __syncthreads();
}
#else
constexpr int kThreads = 1;
inline void meet_block() {}
template <class Real>
Real sum_of_block(Real own) {
  return own;
}
template <class Real>
Real kept_by_block(Real own) {
  return own;
}
template <class Item, class Choose>
Item chosen_of_block(Item own, Choose /*choose*/) {
  return own;
}
template <class Real>
Real sum_before_in_block(Real own, Real& total) {
  total = own;
  return 0;
}
template <class Item, int kItems, class Before>
void sort_block(Item (&items)[kItems], Before before) {
  std::sort(items, items + kItems, before);
}
#endif

template <class Real>
MESHWRIGHT_DEVICE Real maximum_of_block(Real own) {
  return chosen_of_block(own, [](Real a, Real b) { return b > a ? b : a; });
}

}  // namespace meshwright::cuda
