// How a kernel is written once and compiled for the GPU by nvcc and for the host by any C++ compiler: a struct of
// arguments, and what is done at one index of a grid. On a GPU each thread takes indices at a stride of the grid; on
// the host a loop takes all of them.
//
//   struct HalveArguments { float* numbers; };
//   MESHWRIGHT_KERNEL(halve, HalveArguments) { arguments.numbers[index] /= 2; }
//
// What goes over a row for each index is a row kernel: on a GPU the kLanes threads of a warp share an index, each takes
// its lane's elements of the row, and they combine what they have; on the host there is one lane.
//
//   MESHWRIGHT_ROW_KERNEL(total, TotalArguments) {
//     double sum = 0;
//     for (int64_t i = lane; i < arguments.extent; i += kLanes) sum += arguments.rows[index * arguments.extent + i];
//     sum = sum_of_lanes(sum);
//     if (lane == 0) arguments.totals[index] = sum;
//   }
//
// Where rows are long and few, the threads of a block share an index: blocks.h.
//
// Arguments are copied to the device as they are: no pointers to the host in them. Numbers are computed in double, as
// the op families do, or, where a kernel is long on a GPU and nothing in it is float64, in float; they are rounded
// once.
#pragma once

#if defined(__CUDACC_RTC__)  // NVRTC, which has the functions of these headers, and none of the types
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
#define INFINITY __int_as_float(0x7f800000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

#if defined(__CUDACC__)
#define MESHWRIGHT_UNROLL _Pragma("unroll")
#define MESHWRIGHT_NO_UNROLL _Pragma("unroll 1")
#define MESHWRIGHT_UNROLL_SOME _Pragma("unroll 8")  // loads of a few turns begin together
#define MESHWRIGHT_DEVICE __device__ inline
#define MESHWRIGHT_KERNEL(name, Arguments)                                                                \
  __device__ inline void name##_at(const Arguments& arguments, int64_t index);                            \
  extern "C" __global__ void name(const Arguments arguments, int64_t count) {                             \
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;                                  \
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) \
      name##_at(arguments, i);                                                                            \
  }                                                                                                       \
  __device__ inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index)
#define MESHWRIGHT_ROW_KERNEL(name, Arguments)                                                                       \
  __device__ inline void name##_at(const Arguments& arguments, int64_t index, int lane);                             \
  extern "C" __global__ void name(const Arguments arguments, int64_t count) {                                        \
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x / kLanes;                                    \
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes; i < count; i += stride) \
      name##_at(arguments, i, static_cast<int>(threadIdx.x) % kLanes);                                               \
  }                                                                                                                  \
  __device__ inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index,      \
                                   [[maybe_unused]] int lane)
#else
#define MESHWRIGHT_UNROLL
#define MESHWRIGHT_NO_UNROLL
#define MESHWRIGHT_UNROLL_SOME
#define MESHWRIGHT_DEVICE inline
#define MESHWRIGHT_KERNEL(name, Arguments)                                                       \
  inline void name##_at(const Arguments& arguments, int64_t index);                              \
  inline void name##_on_host(const void* arguments, int64_t count) {                             \
    for (int64_t i = 0; i < count; ++i) name##_at(*static_cast<const Arguments*>(arguments), i); \
  }                                                                                              \
  inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index)
#define MESHWRIGHT_ROW_KERNEL(name, Arguments)                                                       \
  inline void name##_at(const Arguments& arguments, int64_t index, int lane);                        \
  inline void name##_on_host(const void* arguments, int64_t count) {                                 \
    for (int64_t i = 0; i < count; ++i) name##_at(*static_cast<const Arguments*>(arguments), i, 0);  \
  }                                                                                                  \
  inline void name##_at([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] int64_t index, \
                        [[maybe_unused]] int lane)
#endif

namespace meshwright::cuda {

constexpr int kWarp = 32;    // threads that run together on a GPU
constexpr int kBlock = 256;  // threads of a block, in all launches

// Every lane gets what all of them have together.
#if defined(__CUDACC__)
constexpr int kLanes = kWarp;
template <class Real>
__device__ inline Real sum_of_lanes(Real own) {
  for (int apart = kLanes / 2; apart > 0; apart /= 2) own += __shfl_xor_sync(0xffffffffU, own, apart);
  return own;
}
template <class Real>
__device__ inline Real maximum_of_lanes(Real own) {
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    const Real other = __shfl_xor_sync(0xffffffffU, own, apart);
    own = other > own ? other : own;
  }
  return own;
}
// How many lanes it holds in, and in how many before this one.
__device__ inline int count_of_lanes(bool holds, int lane, int& before) {
  const unsigned all = __ballot_sync(0xffffffffU, holds);
  before = __popc(all & ((1U << static_cast<unsigned>(lane)) - 1U));
  return __popc(all);
}
// What lanes have read until here others may write from here on.
__device__ inline void meet_lanes() { __syncwarp(); }
#else
constexpr int kLanes = 1;
inline void meet_lanes() {}
inline int count_of_lanes(bool holds, int /*lane*/, int& before) {
  before = 0;
  return holds ? 1 : 0;
}
template <class Real>
Real sum_of_lanes(Real own) {
  return own;
}
template <class Real>
Real maximum_of_lanes(Real own) {
  return own;
}
#endif

constexpr int kMaxRank = 8;  // of a tensor that kernels see

// As DType counts them; a test holds it.
enum class Element : int32_t { uint8, int8, int16, int32, int64, float16, float32, float64, bfloat16, boolean };

struct Sizes {
  int32_t rank = 0;
  int64_t of[kMaxRank] = {};
};

// A tensor, or a view of one: strides in elements.
struct View {
  void* data = nullptr;
  Element element = Element::float32;
  int64_t strides[kMaxRank] = {};
};

// Of numbers that are not negative. A GPU divides 64 bits in a hundred instructions and more, and 32 in twenty.
MESHWRIGHT_DEVICE int64_t quotient(int64_t number, int64_t by) {
  return ((number | by) >> 32) == 0 ? static_cast<uint32_t>(number) / static_cast<uint32_t>(by) : number / by;
}

// Which of `count` places, which stand this far apart from 0 on, is here. -1: none.
MESHWRIGHT_DEVICE int64_t place_at(int64_t here, int64_t apart, int64_t count) {
  if (here < 0) return -1;
  const int64_t place = quotient(here, apart);
  return place * apart == here && place < count ? place : -1;
}

// Where the element at this place of the row-major order stands.
MESHWRIGHT_DEVICE int64_t offset_of(const Sizes& sizes, const int64_t* strides, int64_t index) {
  if (sizes.rank == 0) return 0;
  int64_t offset = 0;
  for (int d = sizes.rank; d-- > 1;) {
    const int64_t rest = quotient(index, sizes.of[d]);
    offset += (index - rest * sizes.of[d]) * strides[d];
    index = rest;
  }
  return offset + index * strides[0];
}

// The upper half of a float's bits.
struct BFloat16 {
  uint16_t bits = 0;
};

MESHWRIGHT_DEVICE float to_float(BFloat16 number) {
  const uint32_t bits = static_cast<uint32_t>(number.bits) << 16U;
  float made = 0;
  memcpy(&made, &bits, sizeof made);
  return made;
}

// To the nearest, ties to even; NaN stays NaN.
MESHWRIGHT_DEVICE BFloat16 to_bfloat16(float number) {
  BFloat16 made;
#if defined(__CUDA_ARCH__)
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(made.bits) : "f"(number));
#else
  uint32_t bits = 0;
  memcpy(&bits, &number, sizeof bits);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  made.bits = static_cast<uint16_t>(is_nan ? (bits >> 16U) | 0x40U : (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
#endif
  return made;
}

// As a float, which holds float32, bfloat16 and small integers as they are, or as a double.
template <class Real = double>
MESHWRIGHT_DEVICE Real load(const void* data, Element element, int64_t at) {
  switch (element) {
    case Element::float32:
      return static_cast<Real>(static_cast<const float*>(data)[at]);
    case Element::bfloat16:
      return static_cast<Real>(to_float(static_cast<const BFloat16*>(data)[at]));
    case Element::float64:
      return static_cast<Real>(static_cast<const double*>(data)[at]);
    case Element::int64:
      return static_cast<Real>(static_cast<const int64_t*>(data)[at]);
    case Element::int32:
      return static_cast<Real>(static_cast<const int32_t*>(data)[at]);
    case Element::int16:
      return static_cast<Real>(static_cast<const int16_t*>(data)[at]);
    case Element::int8:
      return static_cast<Real>(static_cast<const int8_t*>(data)[at]);
    default:
      return static_cast<Real>(static_cast<const uint8_t*>(data)[at]);
  }
}

template <class Real>
MESHWRIGHT_DEVICE void store(void* data, Element element, int64_t at, Real number) {
  switch (element) {
    case Element::float32:
      static_cast<float*>(data)[at] = static_cast<float>(number);
      return;
    case Element::bfloat16:
      static_cast<BFloat16*>(data)[at] = to_bfloat16(static_cast<float>(number));
      return;
    case Element::float64:
      static_cast<double*>(data)[at] = static_cast<double>(number);
      return;
    case Element::int64:
      static_cast<int64_t*>(data)[at] = static_cast<int64_t>(number);
      return;
    case Element::int32:
      static_cast<int32_t*>(data)[at] = static_cast<int32_t>(number);
      return;
    case Element::int16:
      static_cast<int16_t*>(data)[at] = static_cast<int16_t>(number);
      return;
    case Element::int8:
      static_cast<int8_t*>(data)[at] = static_cast<int8_t>(number);
      return;
    case Element::boolean:
      static_cast<uint8_t*>(data)[at] = number != 0 ? 1 : 0;
      return;
    default:
      static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(number);
      return;
  }
}

template <class Real = double>
MESHWRIGHT_DEVICE Real load(const View& view, int64_t offset) {
  return load<Real>(view.data, view.element, offset);
}
template <class Real>
MESHWRIGHT_DEVICE void store(const View& view, int64_t offset, Real number) {
  store(view.data, view.element, offset, number);
}

// Whether numbers of this type are computed in float; else in double.
MESHWRIGHT_DEVICE bool is_single(Element element) {
  return element == Element::float32 || element == Element::bfloat16;
}

// A type that is known where a kernel is compiled: its numbers are loaded without asking for each, several at a time.
template <Element kElement, class Computes>
struct Typed {
  using Real = Computes;
  static constexpr Element element = kElement;
  MESHWRIGHT_DEVICE static Real load(const void* data, Element /*element*/, int64_t at) {
    return meshwright::cuda::load<Real>(data, kElement, at);
  }
  MESHWRIGHT_DEVICE static void store(void* data, Element /*element*/, int64_t at, Real number) {
    meshwright::cuda::store(data, kElement, at, number);
  }
  MESHWRIGHT_DEVICE static Real load(const View& view, int64_t at) { return load(view.data, kElement, at); }
  MESHWRIGHT_DEVICE static void store(const View& view, int64_t at, Real number) {
    store(view.data, kElement, at, number);
  }
};

// One that is asked for.
template <class Computes>
struct AnyType {
  using Real = Computes;
  MESHWRIGHT_DEVICE static Real load(const void* data, Element element, int64_t at) {
    return meshwright::cuda::load<Real>(data, element, at);
  }
  MESHWRIGHT_DEVICE static void store(void* data, Element element, int64_t at, Real number) {
    meshwright::cuda::store(data, element, at, number);
  }
  MESHWRIGHT_DEVICE static Real load(const View& view, int64_t at) { return meshwright::cuda::load<Real>(view, at); }
  MESHWRIGHT_DEVICE static void store(const View& view, int64_t at, Real number) {
    meshwright::cuda::store(view, at, number);
  }
};

// Calls `body` with the type that these are of: computed in float if it is bfloat16 or float32, and in double
// otherwise, or where they are of several.
template <class Body, class... Others>
MESHWRIGHT_DEVICE void by_type(const Body& body, const View& first, const Others&... others) {
  const bool is_one = ((others.element == first.element) && ...);
  if (is_one && first.element == Element::bfloat16)
    body(Typed<Element::bfloat16, float>());
  else if (is_one && first.element == Element::float32)
    body(Typed<Element::float32, float>());
  else if (is_single(first.element) && (is_single(others.element) && ...))
    body(AnyType<float>());
  else
    body(AnyType<double>());
}

}  // namespace meshwright::cuda
