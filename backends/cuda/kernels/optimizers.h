// The optimizer's step, as sdk/lib/ranks/optimizer.h takes it.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class OptimizerKind : int32_t { sgd, momentum, adam };

// All lie one element after the other. What the optimizer keeps is of type `kept`; `master`, if there is one, is
// updated in the parameter's place, which becomes its rounding.
struct OptimizerArguments {
  OptimizerKind kind = OptimizerKind::sgd;
  Element element = Element::float32, of_gradient = Element::float32, kept = Element::float32;
  const void* gradient = nullptr;
  void *parameter = nullptr, *master = nullptr, *first = nullptr, *second = nullptr;
  double rate = 0;        // of adam: corrected for its first moment having started at zero
  double correction = 1;  // of adam's second moment, for the same
  double decay = 1;       // of adam: by which the parameter is multiplied
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0;
};

template <class Real>
MESHWRIGHT_DEVICE void take_step(const OptimizerArguments& a, int64_t index) {
  const bool has_master = a.master != nullptr;
  const Real slope = load<Real>(a.gradient, a.of_gradient, index),
             before = has_master ? load<Real>(a.master, a.kept, index) : load<Real>(a.parameter, a.element, index),
             rate = static_cast<Real>(a.rate);
  Real step = rate * slope;
  if (a.kind == OptimizerKind::momentum) {
    const Real moved = static_cast<Real>(a.momentum) * load<Real>(a.first, a.kept, index) + slope;
    store(a.first, a.kept, index, moved);
    step = rate * moved;
  }
  if (a.kind == OptimizerKind::adam) {
    const Real beta1 = static_cast<Real>(a.beta1), beta2 = static_cast<Real>(a.beta2);
    const Real moment = beta1 * load<Real>(a.first, a.kept, index) + static_cast<Real>(1 - a.beta1) * slope,
               square = beta2 * load<Real>(a.second, a.kept, index) + static_cast<Real>(1 - a.beta2) * slope * slope;
    store(a.first, a.kept, index, moment);
    store(a.second, a.kept, index, square);
    step = rate * moment / (sqrt(square) * static_cast<Real>(a.correction) + static_cast<Real>(a.epsilon));
  }
  const Real after = before * static_cast<Real>(a.decay) - step;
  if (has_master) store(a.master, a.kept, index, after);
  store(a.parameter, a.element, index, after);
}

MESHWRIGHT_KERNEL(optimize, OptimizerArguments) {
  if (is_single(arguments.element) && is_single(arguments.kept) && is_single(arguments.of_gradient))
    take_step<float>(arguments, index);
  else
    take_step<double>(arguments, index);
}

}  // namespace meshwright::cuda
