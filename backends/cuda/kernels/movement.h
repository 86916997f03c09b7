// Elements that go from one view to another.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Elements, or pieces of them, as `bytes` says, whose strides are multiples of it; 0: elements of two types.
struct CopyArguments {
  Sizes sizes;
  View from, to;
  int32_t bytes = 0;
};

MESHWRIGHT_DEVICE int bytes_of(Element element) {
  switch (element) {
    case Element::int64:
    case Element::float64:
      return 8;
    case Element::int32:
    case Element::float32:
      return 4;
    case Element::int16:
    case Element::float16:
    case Element::bfloat16:
      return 2;
    default:
      return 1;
  }
}

struct alignas(16) SixteenBytes {
  uint64_t halves[2];
};

template <class Piece>
MESHWRIGHT_DEVICE void copy_piece(const CopyArguments& arguments, int64_t source, int64_t target) {
  static_cast<Piece*>(arguments.to.data)[target] = static_cast<const Piece*>(arguments.from.data)[source];
}

// Bits stay what they are where the types are alike.
MESHWRIGHT_KERNEL(copy, CopyArguments) {
  const int64_t source = offset_of(arguments.sizes, arguments.from.strides, index),
                target = offset_of(arguments.sizes, arguments.to.strides, index);
  switch (arguments.bytes) {
    case 16:
      return copy_piece<SixteenBytes>(arguments, source, target);
    case 8:
      return copy_piece<int64_t>(arguments, source, target);
    case 4:
      return copy_piece<int32_t>(arguments, source, target);
    case 2:
      return copy_piece<int16_t>(arguments, source, target);
    case 1:
      return copy_piece<int8_t>(arguments, source, target);
    default:
      store(arguments.to, target, load(arguments.from, source));
  }
}

}  // namespace meshwright::cuda
