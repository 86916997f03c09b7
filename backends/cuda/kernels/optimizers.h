// The optimizer's step, as sdk/lib/ranks/optimizer.h takes it.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class OptimizerKind : int32_t { sgd, momentum, adam };

// All lie one element after the other, in the parameter's type.
struct OptimizerArguments {
  OptimizerKind kind = OptimizerKind::sgd;
  Element element = Element::float32;
  const void* gradient = nullptr;
  void *parameter = nullptr, *first = nullptr, *second = nullptr;
  double rate = 0;        // of adam: corrected for its first moment having started at zero
  double correction = 1;  // of adam's second moment, for the same
  double decay = 1;       // of adam: by which the parameter is multiplied
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0;
};

MESHWRIGHT_KERNEL(optimize, OptimizerArguments) {
  const double slope = load(arguments.gradient, arguments.element, index),
               before = load(arguments.parameter, arguments.element, index);
  double step = arguments.rate * slope;
  if (arguments.kind == OptimizerKind::momentum) {
    const double moved = arguments.momentum * load(arguments.first, arguments.element, index) + slope;
    store(arguments.first, arguments.element, index, moved);
    step = arguments.rate * moved;
  }
  if (arguments.kind == OptimizerKind::adam) {
    const double moment =
        arguments.beta1 * load(arguments.first, arguments.element, index) + (1 - arguments.beta1) * slope;
    const double square =
        arguments.beta2 * load(arguments.second, arguments.element, index) + (1 - arguments.beta2) * slope * slope;
    store(arguments.first, arguments.element, index, moment);
    store(arguments.second, arguments.element, index, square);
    step = arguments.rate * moment / (sqrt(square) * arguments.correction + arguments.epsilon);
  }
  store(arguments.parameter, arguments.element, index, before * arguments.decay - step);
}

}  // namespace meshwright::cuda
