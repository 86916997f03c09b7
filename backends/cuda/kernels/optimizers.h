// The optimizer's step, as sdk/lib/ranks/optimizer.h takes it.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class OptimizerKind : int32_t { sgd, momentum, adam };

// What changes from step to step.
struct OptimizerNumbers {
  double rate = 0;        // of adam: corrected for its first moment having started at zero
  double correction = 1;  // of adam's second moment, for the same
};

// All lie one element after the other. What the optimizer keeps is of type `kept`; `master`, if there is one, is
// updated in the parameter's place, which becomes its rounding.
struct OptimizerArguments {
  OptimizerKind kind = OptimizerKind::sgd;
  Element element = Element::float32, of_gradient = Element::float32, kept = Element::float32;
  const void* gradient = nullptr;
  void *parameter = nullptr, *master = nullptr, *first = nullptr, *second = nullptr;
  const OptimizerNumbers* numbers = nullptr;
  double decay = 1;  // of adam: by which the parameter is multiplied
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0;
};

// Types of the parameter, of what the optimizer keeps, and of the gradient.
template <class Of, class Kept, class Gradient>
MESHWRIGHT_DEVICE void take_step(const OptimizerArguments& a, int64_t index) {
  using Real = typename Of::Real;
  const bool has_master = a.master != nullptr;
  const Real slope = Gradient::load(a.gradient, a.of_gradient, index),
             before = has_master ? Kept::load(a.master, a.kept, index) : Of::load(a.parameter, a.element, index),
             rate = static_cast<Real>(a.numbers->rate);
  Real step = rate * slope;
  if (a.kind == OptimizerKind::momentum) {
    const Real moved = static_cast<Real>(a.momentum) * Kept::load(a.first, a.kept, index) + slope;
    Kept::store(a.first, a.kept, index, moved);
    step = rate * moved;
  }
  if (a.kind == OptimizerKind::adam) {
    const Real beta1 = static_cast<Real>(a.beta1), beta2 = static_cast<Real>(a.beta2);
    const Real moment = beta1 * Kept::load(a.first, a.kept, index) + static_cast<Real>(1 - a.beta1) * slope,
               square = beta2 * Kept::load(a.second, a.kept, index) + static_cast<Real>(1 - a.beta2) * slope * slope;
    Kept::store(a.first, a.kept, index, moment);
    Kept::store(a.second, a.kept, index, square);
    step = rate * moment / (sqrt(square) * static_cast<Real>(a.numbers->correction) + static_cast<Real>(a.epsilon));
  }
  const Real after = before * static_cast<Real>(a.decay) - step;
  if (has_master) Kept::store(a.master, a.kept, index, after);
  Of::store(a.parameter, a.element, index, after);
}

MESHWRIGHT_KERNEL(optimize, OptimizerArguments) {
  using Half = Typed<Element::bfloat16, float>;
  using Single = Typed<Element::float32, float>;
  using Any = AnyType<float>;
  const Element of = arguments.element, kept = arguments.kept, gradient = arguments.of_gradient;
  if (of == Element::bfloat16 && kept == Element::float32 && gradient == Element::bfloat16)
    take_step<Half, Single, Half>(arguments, index);
  else if (of == Element::float32 && kept == Element::float32 && gradient == Element::float32)
    take_step<Single, Single, Single>(arguments, index);
  else if (is_single(of) && is_single(kept) && is_single(gradient))
    take_step<Any, Any, Any>(arguments, index);
  else
    take_step<AnyType<double>, AnyType<double>, AnyType<double>>(arguments, index);
}

}  // namespace meshwright::cuda
