#include "optimizer.h"

#include <cmath>

namespace meshwright {

namespace {

// Decoupled weight decay; the moments are corrected for having started at zero.
double adamw(double parameter, double gradient, const OptimizerSettings& settings) {
  const double decayed = parameter * (1 - settings.learning_rate * settings.weight_decay);
  const double first = (1 - settings.beta1) * gradient, second = (1 - settings.beta2) * gradient * gradient;
  const double denominator = std::sqrt(second) / std::sqrt(1 - settings.beta2) + settings.epsilon;
  return decayed - settings.learning_rate / (1 - settings.beta1) * first / denominator;
}

template <class T>
void step(Optimizer optimizer, const OptimizerSettings& settings, std::span<const T> gradient, std::span<T> parameter) {
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const auto value = static_cast<double>(parameter[i]), slope = static_cast<double>(gradient[i]);
    // Momentum's buffer is the gradient itself after the first step.
    parameter[i] = static_cast<T>(optimizer == Optimizer::adamw ? adamw(value, slope, settings)
                                                                : value - settings.learning_rate * slope);
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

std::int64_t states_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
      return 1;
    case Optimizer::adamw:
      return 2;
  }
  return 0;
}

}  // namespace meshwright
