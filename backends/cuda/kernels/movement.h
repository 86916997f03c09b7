// Elements that go from one view to another.
#pragma once

#include "lookups.h"

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

// The last position of some dimensions first.
struct FlipArguments {
  Sizes sizes;
  bool is_flipped[kMaxRank] = {};
  View from, to;
};

MESHWRIGHT_KERNEL(flip, FlipArguments) {
  int64_t source = 0, rest = index;
  for (int d = arguments.sizes.rank; d-- > 0;) {
    const int64_t outer = quotient(rest, arguments.sizes.of[d]), at = rest - outer * arguments.sizes.of[d];
    source += (arguments.is_flipped[d] ? arguments.sizes.of[d] - 1 - at : at) * arguments.from.strides[d];
    rest = outer;
  }
  store(arguments.to, offset_of(arguments.sizes, arguments.to.strides, index), load(arguments.from, source));
}

// Of matrices, what is on the diagonal and on one side of it; the rest is zero.
struct TriangleArguments {
  Sizes sizes;  // of which the last two are rows and columns
  bool upper = false;
  int64_t diagonal = 0;
  Shard rows, columns;
  View from, to;
};

MESHWRIGHT_KERNEL(triangle, TriangleArguments) {
  const int64_t columns = arguments.sizes.of[arguments.sizes.rank - 1],
                rows = arguments.sizes.of[arguments.sizes.rank - 2], line = quotient(index, columns),
                row = global_of(arguments.rows, line - quotient(line, rows) * rows),
                behind = global_of(arguments.columns, index - line * columns) - row - arguments.diagonal;
  const bool stays = arguments.upper ? behind >= 0 : behind <= 0;
  store(arguments.to, offset_of(arguments.sizes, arguments.to.strides, index),
        stays ? load(arguments.from, offset_of(arguments.sizes, arguments.from.strides, index)) : 0);
}

}  // namespace meshwright::cuda
