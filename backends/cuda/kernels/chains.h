// Functions of one element, one after the other, over tensors whose elements follow each other in one order: what one
// link makes the next one has in registers, and what nobody else reads is not written.
#pragma once

#include "pointwise.h"

namespace meshwright::cuda {

constexpr int kTogether = 8;  // elements that a thread takes, at multiples of 16 bytes

// A function. Types are float32, bfloat16, boolean.
struct ChainLink {
  Function function = Function::identity;
  int32_t operands = 0;
  uint32_t handed = 0;    // by operand a bit: it is what the link before made
  bool stores = true;     // else nobody reads it but the link behind it
  bool is_wanted = true;  // by others than links of its chain: else it is stored for those alone that are not compiled
  int8_t lies[3] = {};    // by operand: 0: as the result does; else at the chain's strides of this number less 1
  float number = 0, second = 0, other = 0;  // as of PointwiseArguments
  Element of_operand[3] = {}, of_result = Element::float32;
  const void* operand[3] = {};
  void* result = nullptr;
};

struct ChainArguments {
  static constexpr int kMaxLinks = 24, kMaxRank = 4, kMaxStrides = 8;
  int32_t links = 0;
  int32_t rank = 0;     // of dimensions that all results have; 0: nobody asks for them
  int32_t strided = 0;  // how many strides there are
  int64_t elements = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kMaxStrides][kMaxRank] = {};
  ChainLink link[kMaxLinks];
};

// Those that links have; each is compiled by itself, for as many elements as a thread takes.
#define MESHWRIGHT_CHAINED(each)                                                                                    \
  each(identity) each(constant) each(add) each(subtract) each(multiply) each(divide) each(negate) each(exponential) \
      each(square_root) each(inverse_square_root) each(reciprocal) each(absolute) each(tanh) each(tanh_slope)       \
          each(sigmoid) each(sigmoid_slope) each(relu) each(silu) each(silu_slope) each(gelu) each(gelu_slope)      \
              each(tanh_gelu) each(tanh_gelu_slope) each(above_threshold) each(power_of_number) each(maximum)       \
                  each(minimum) each(choose) each(choose_number) each(mask_number) each(square) each(logarithm)     \
                      each(sign) each(clamp) each(clamp_slope) each(elu) each(elu_slope) each(leaky_relu)           \
                          each(leaky_relu_slope) each(softplus) each(softplus_slope) each(hard_sigmoid)             \
                              each(hard_sigmoid_slope) each(hard_swish) each(hard_swish_slope)

MESHWRIGHT_DEVICE bool is_chained(Function function) {
#define MESHWRIGHT_IS(name) function == Function::name ||
  return MESHWRIGHT_CHAINED(MESHWRIGHT_IS) false;
#undef MESHWRIGHT_IS
}

template <int kBytes>
struct alignas(kBytes) Packed {
  uint32_t words[kBytes / 4];
};
// On a GPU one access; elsewhere the compiler would take it that no number lies there.
template <int kBytes>
MESHWRIGHT_DEVICE Packed<kBytes> load_packed(const void* data, int64_t index) {
#if defined(__CUDA_ARCH__)
  return static_cast<const Packed<kBytes>*>(data)[index];
#else
  Packed<kBytes> packed;
  memcpy(&packed, static_cast<const Packed<kBytes>*>(data) + index, kBytes);
  return packed;
#endif
}
template <int kBytes>
MESHWRIGHT_DEVICE void store_packed(void* data, int64_t index, const Packed<kBytes>& packed) {
#if defined(__CUDA_ARCH__)
  static_cast<Packed<kBytes>*>(data)[index] = packed;
#else
  memcpy(static_cast<Packed<kBytes>*>(data) + index, &packed, kBytes);
#endif
}

MESHWRIGHT_DEVICE float float_of_bits(uint32_t bits) {
  float number = 0;
  memcpy(&number, &bits, sizeof number);
  return number;
}
MESHWRIGHT_DEVICE uint32_t bits_of_float(float number) {
  uint32_t bits = 0;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

// The elements of one thread; of the last one, `count` of them.
MESHWRIGHT_DEVICE void load_together(const void* data, Element element, int64_t index, int64_t count, float* numbers) {
  if (count < kTogether) {
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i) numbers[i] = i < count ? load<float>(data, element, index * kTogether + i) : 0;
  } else if (element == Element::bfloat16) {
    const Packed<16> packed = load_packed<16>(data, index);
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i)
      numbers[i] = float_of_bits(i % 2 == 0 ? packed.words[i / 2] << 16U : packed.words[i / 2] & 0xffff0000U);
  } else if (element == Element::float32) {
    const Packed<16> low = load_packed<16>(data, 2 * index), high = load_packed<16>(data, 2 * index + 1);
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i) numbers[i] = float_of_bits(i < 4 ? low.words[i] : high.words[i - 4]);
  } else {
    const Packed<8> packed = load_packed<8>(data, index);
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i)
      numbers[i] = static_cast<float>(packed.words[i / 4] >> static_cast<uint32_t>(8 * (i % 4)) & 0xffU);
  }
}

// Where a thread's elements stand: of several dimensions, all in one row, whose size is a multiple of kTogether.
struct ChainPlace {
  int64_t at[ChainArguments::kMaxRank];
};
template <int kRank>
MESHWRIGHT_DEVICE ChainPlace chain_place(const ChainArguments& arguments, int64_t index) {
  ChainPlace place = {};
  int64_t rest = index * kTogether;
  MESHWRIGHT_UNROLL
  for (int d = kRank; d-- > 1;) {
    const int64_t outer = quotient(rest, arguments.sizes[d]);
    place.at[d] = rest - outer * arguments.sizes[d];
    rest = outer;
  }
  place.at[0] = rest;
  return place;
}

// Of an operand at strides: those along the row are 1, of pieces that load_together takes, or 0.
template <int kRank>
MESHWRIGHT_DEVICE void load_strided(const void* data, Element element, const int64_t* strides, const ChainPlace& place,
                                    bool repeats, float* numbers) {
  int64_t offset = 0;
  MESHWRIGHT_UNROLL
  for (int d = 0; d < kRank; ++d) offset += place.at[d] * strides[d];
  if (!repeats) return load_together(data, element, offset / kTogether, kTogether, numbers);
  const auto number = load<float>(data, element, offset);
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kTogether; ++i) numbers[i] = number;
}

// What is made of them, as its type holds it.
MESHWRIGHT_DEVICE void round_together(Element element, float* numbers) {
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    if (element == Element::bfloat16) numbers[i] = to_float(to_bfloat16(numbers[i]));
    if (element == Element::boolean) numbers[i] = numbers[i] != 0 ? 1 : 0;
  }
}

MESHWRIGHT_DEVICE void store_together(void* data, Element element, int64_t index, int64_t count, const float* numbers) {
  if (count < kTogether) {
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      if (i < count) store(data, element, index * kTogether + i, numbers[i]);
    }
  } else if (element == Element::bfloat16) {
    Packed<16> packed;
    MESHWRIGHT_UNROLL
    for (int i = 0; i < 4; ++i)
      packed.words[i] = bits_of_float(numbers[2 * i]) >> 16U | (bits_of_float(numbers[2 * i + 1]) & 0xffff0000U);
    store_packed(data, index, packed);
  } else if (element == Element::float32) {
    MESHWRIGHT_UNROLL
    for (int half = 0; half < 2; ++half) {
      Packed<16> packed;
      MESHWRIGHT_UNROLL
      for (int i = 0; i < 4; ++i) packed.words[i] = bits_of_float(numbers[4 * half + i]);
      store_packed(data, 2 * index + half, packed);
    }
  } else {
    Packed<8> packed = {};
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kTogether; ++i)
      packed.words[i / 4] |= static_cast<uint32_t>(numbers[i]) << static_cast<uint32_t>(8 * (i % 4));
    store_packed(data, index, packed);
  }
}

template <Function kFunction>
MESHWRIGHT_DEVICE void apply(const float (&operands)[3][kTogether], const ChainLink& link, float* made) {
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    const float x[3] = {operands[0][i], operands[1][i], operands[2][i]};
    made[i] = value_of(kFunction, x, link.number, link.second);
  }
}

// Of chains that are compiled by themselves (chain_source.h), what a thread has of a tensor.
struct Numbers {
  float of[kTogether];
};

template <Element kElement, bool kIsWhole>
MESHWRIGHT_DEVICE Numbers loaded(const void* data, int64_t index, int64_t count) {
  Numbers numbers;
  load_together(data, kElement, index, kIsWhole ? kTogether : count, numbers.of);
  return numbers;
}

template <Element kElement, int kRank, bool kRepeats>
MESHWRIGHT_DEVICE Numbers loaded_at(const void* data, const int64_t* strides, const ChainPlace& place) {
  Numbers numbers;
  load_strided<kRank>(data, kElement, strides, place, kRepeats, numbers.of);
  return numbers;
}

template <Element kElement, bool kIsWhole>
MESHWRIGHT_DEVICE void write_back(void* data, int64_t index, int64_t count, const Numbers& numbers) {
  store_together(data, kElement, index, kIsWhole ? kTogether : count, numbers.of);
}

template <Function kFunction, Element kResult, class... Operands>
MESHWRIGHT_DEVICE Numbers made_by(const ChainLink& link, const Operands&... operands) {
  Numbers made;
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    float x[3] = {link.other, link.other, link.other};
    int o = 0;
    ((x[o++] = operands.of[i]), ...);
    made.of[i] = value_of(kFunction, x, link.number, link.second);
  }
  round_together(kResult, made.of);
  return made;
}

#if !defined(__CUDACC_RTC__)  // which compiles chains by themselves
MESHWRIGHT_DEVICE ChainPlace any_chain_place(const ChainArguments& arguments, int64_t index) {
  switch (arguments.rank) {
    case 0:
      return {};
    case 1:
      return chain_place<1>(arguments, index);
    case 2:
      return chain_place<2>(arguments, index);
    case 3:
      return chain_place<3>(arguments, index);
    default:
      return chain_place<4>(arguments, index);
  }
}

// One index as many elements as a thread takes. A link's operand may lie where an earlier one's result does, or the
// other way round, if it begins there and has elements of that size: then a thread meets its own alone.
MESHWRIGHT_KERNEL(chain, ChainArguments) {
  const int64_t rest = arguments.elements - index * kTogether, count = rest < kTogether ? rest : kTogether;
  const ChainPlace place = any_chain_place(arguments, index);
  float made[kTogether] = {};
  for (int l = 0; l < arguments.links; ++l) {
    const ChainLink& link = arguments.link[l];
    float x[3][kTogether];
    MESHWRIGHT_UNROLL
    for (int o = 0; o < 3; ++o) {
      const bool is_handed = (link.handed >> static_cast<uint32_t>(o) & 1U) != 0;
      if (o < link.operands && !is_handed) {
        if (link.lies[o] == 0) {
          load_together(link.operand[o], link.of_operand[o], index, count, x[o]);
          continue;
        }
        const int64_t* strides = arguments.strides[link.lies[o] - 1];
        load_strided<ChainArguments::kMaxRank>(link.operand[o], link.of_operand[o], strides, place,
                                               strides[arguments.rank - 1] == 0, x[o]);
        continue;
      }
      MESHWRIGHT_UNROLL
      for (int i = 0; i < kTogether; ++i) x[o][i] = o < link.operands ? made[i] : link.other;
    }
    switch (link.function) {
#define MESHWRIGHT_APPLY(name)            \
  case Function::name:                    \
    apply<Function::name>(x, link, made); \
    break;
      MESHWRIGHT_CHAINED(MESHWRIGHT_APPLY)
#undef MESHWRIGHT_APPLY
      default:
        break;
    }
    round_together(link.of_result, made);
    if (link.stores) store_together(link.result, link.of_result, index, count, made);
  }
}
#endif

}  // namespace meshwright::cuda
