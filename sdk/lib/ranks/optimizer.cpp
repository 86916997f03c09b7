#include "optimizer.h"

#include <cmath>

namespace meshwright {

namespace {

// The moments are corrected for having started at zero. AdamW's weight decay is decoupled; Adam's is 0 by default.
double adam(double parameter, double gradient, const OptimizerSettings& settings, double weight_decay) {
  const double decayed = parameter * (1 - settings.learning_rate * weight_decay);
  const double first = (1 - settings.beta1) * gradient, second = (1 - settings.beta2) * gradient * gradient;
  const double denominator = std::sqrt(second) / std::sqrt(1 - settings.beta2) + settings.epsilon;
  return decayed - settings.learning_rate / (1 - settings.beta1) * first / denominator;
}

template <class T>
void step(Optimizer optimizer, const OptimizerSettings& settings, std::span<const T> gradient, std::span<T> parameter) {
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const auto value = static_cast<double>(parameter[i]), slope = static_cast<double>(gradient[i]);
    switch (optimizer) {
      case Optimizer::adam: parameter[i] = static_cast<T>(adam(value, slope, settings, 0)); break;
      case Optimizer::adamw: parameter[i] = static_cast<T>(adam(value, slope, settings, settings.weight_decay)); break;
      case Optimizer::sgd:
      case Optimizer::momentum:  // whose buffer is the gradient itself after the first step
        parameter[i] = static_cast<T>(value - settings.learning_rate * slope);
    }
  }
}

}  // namespace

Status take_first_step(Optimizer optimizer, const OptimizerSettings& settings, const Tensor& gradient,
                       Tensor& parameter) {
  if (gradient.type() != parameter.type()) {
    return bad_input("a parameter of type " + to_string(parameter.type()) + " has a gradient of type " +
                     to_string(gradient.type()));
  }
  switch (parameter.type().dtype) {
    case DType::float32:
      step(optimizer, settings, gradient.as<float>(), parameter.as<float>());
      return Done{};
    case DType::float64:
      step(optimizer, settings, gradient.as<double>(), parameter.as<double>());
      return Done{};
    default:
      return bad_input("the optimizer's step is not computed for " + to_string(parameter.type()));
  }
}

}  // namespace meshwright
