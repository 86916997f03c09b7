// Elements that go from one view to another.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

struct CopyArguments {
  Sizes sizes;
  View from, to;
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

// Bits stay what they are where the types are alike.
MESHWRIGHT_KERNEL(copy, CopyArguments) {
  const int64_t source = offset_of(arguments.sizes, arguments.from.strides, index),
                target = offset_of(arguments.sizes, arguments.to.strides, index);
  if (arguments.from.element != arguments.to.element) {
    store(arguments.to, target, load(arguments.from, source));
    return;
  }
  switch (bytes_of(arguments.to.element)) {
    case 8:
      static_cast<int64_t*>(arguments.to.data)[target] = static_cast<const int64_t*>(arguments.from.data)[source];
      return;
    case 4:
      static_cast<int32_t*>(arguments.to.data)[target] = static_cast<const int32_t*>(arguments.from.data)[source];
      return;
    case 2:
      static_cast<int16_t*>(arguments.to.data)[target] = static_cast<const int16_t*>(arguments.from.data)[source];
      return;
    default:
      static_cast<int8_t*>(arguments.to.data)[target] = static_cast<const int8_t*>(arguments.from.data)[source];
      return;
  }
}

}  // namespace meshwright::cuda
