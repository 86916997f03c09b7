#include "optimizer.h"

#include <cmath>

namespace meshwright {

namespace {

// The moments are corrected for having started at zero. AdamW's weight decay is decoupled; Adam's is 0 by default.
template <class T>
void adam_step(const OptimizerSettings& settings, double weight_decay, std::span<const T> gradient, std::span<T> parameter, OptimizerState& state) {
  const auto steps = static_cast<double>(state.steps);
  const double rate = settings.learning_rate / (1 - std::pow(settings.beta1, steps));
  const double correction = 1 / std::sqrt(1 - std::pow(settings.beta2, steps));
  const double decay = 1 - settings.learning_rate * weight_decay;
  const std::span<T> first = state.first.as<T>(), second = state.second.as<T>();
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const auto slope = static_cast<double>(gradient[i]);
    const double moment = settings.beta1 * static_cast<double>(first[i]) + (1 - settings.beta1) * slope;
    const double square = settings.beta2 * static_cast<double>(second[i]) + (1 - settings.beta2) * slope * slope;
    first[i] = static_cast<T>(moment);
    second[i] = static_cast<T>(square);
    parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) * decay - rate * moment / (std::sqrt(square) * correction + settings.epsilon));
  }
}

// The buffer is the gradient itself after the first step.
template <class T>
void momentum_step(const OptimizerSettings& settings, std::span<const T> gradient, std::span<T> parameter, OptimizerState& state) {
  const std::span<T> buffer = state.first.as<T>();
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    const double moved = settings.momentum * static_cast<double>(buffer[i]) + static_cast<double>(gradient[i]);
    buffer[i] = static_cast<T>(moved);
    parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) - settings.learning_rate * moved);
  }
}

template <class T>
void step(Optimizer optimizer, const OptimizerSettings& settings, std::span<const T> gradient, std::span<T> parameter, OptimizerState& state) {
  switch (optimizer) {
    case Optimizer::adam: return adam_step(settings, 0, gradient, parameter, state);
    case Optimizer::adamw: return adam_step(settings, settings.weight_decay, gradient, parameter, state);
    case Optimizer::momentum: return momentum_step(settings, gradient, parameter, state);
    case Optimizer::sgd:
      for (std::size_t i = 0; i < parameter.size(); ++i) {
        parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) - settings.learning_rate * static_cast<double>(gradient[i]));
      }
  }
}

}  // namespace

Status take_step(Optimizer optimizer, const OptimizerSettings& settings, const Tensor& gradient, Tensor& parameter, OptimizerState& state) {
  if (gradient.type() != parameter.type()) {
    return bad_input("a parameter of type " + to_string(parameter.type()) + " has a gradient of type " +
                     to_string(gradient.type()));
  }
  if (state.steps == 0 && optimizer != Optimizer::sgd) state.first = Tensor(parameter.type());
  if (state.steps == 0 && (optimizer == Optimizer::adam || optimizer == Optimizer::adamw)) state.second = Tensor(parameter.type());
  ++state.steps;
  switch (parameter.type().dtype) {
    case DType::float32:
      step(optimizer, settings, gradient.as<float>(), parameter.as<float>(), state);
      return Done{};
    case DType::float64:
      step(optimizer, settings, gradient.as<double>(), parameter.as<double>(), state);
      return Done{};
    default:
      return bad_input("the optimizer's step is not computed for " + to_string(parameter.type()));
  }
}

}  // namespace meshwright
