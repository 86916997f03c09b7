// Tensors' elements, each a function of one element of each operand.
#pragma once

#include "functions.h"

namespace meshwright::cuda {

struct PointwiseArguments {
  Function function = Function::identity;
  int32_t operands = 0;
  bool single = false;  // computed in float: nothing here is more precise, or a large integer
  // Those of the function; `other` stands in the place behind the operands.
  double number = 0, second = 0, other = 0;
  Sizes sizes;
  View operand[3];
  View result;
};

#if !defined(__CUDACC_RTC__)  // which compiles chains alone
template <class Real>
MESHWRIGHT_DEVICE void compute(const PointwiseArguments& arguments, int64_t index) {
  Real x[4];
#if defined(__CUDACC__)
#pragma unroll  // so that the numbers stay in registers
#endif
  for (int i = 0; i < 4; ++i) {
    x[i] = static_cast<Real>(arguments.other);
    if (i < 3 && i < arguments.operands)
      x[i] = load<Real>(arguments.operand[i], offset_of(arguments.sizes, arguments.operand[i].strides, index));
  }
  store(arguments.result, offset_of(arguments.sizes, arguments.result.strides, index),
        value_of(arguments.function, x, static_cast<Real>(arguments.number), static_cast<Real>(arguments.second)));
}

// The result may be an operand itself: an element is read before it is written.
MESHWRIGHT_KERNEL(pointwise, PointwiseArguments) {
  if (arguments.single)
    compute<float>(arguments, index);
  else
    compute<double>(arguments, index);
}
#endif

}  // namespace meshwright::cuda
