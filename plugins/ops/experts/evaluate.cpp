#include <cmath>

#include "experts.h"

namespace meshwright {

namespace {

// The gate's function and its derivative.
struct Activation {
  double (*value)(double);
  double (*slope)(double);
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return 0.5 * (1 + std::erf(x * std::sqrt(0.5))); }
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
double inner(double x) { return kSqrtTwoOverPi * (x + 0.044715 * x * x * x); }

constexpr Activation kSilu{[](double x) { return x * sigmoid(x); },
                           [](double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }};
constexpr Activation kGelu{[](double x) { return x * normal(x); },
                           [](double x) { return normal(x) + x * std::exp(-0.5 * x * x) * 0.5 * kSqrtTwoOverPi; }};
constexpr Activation kGeluTanh{[](double x) { return 0.5 * x * (1 + std::tanh(inner(x))); },
                               [](double x) {
                                 const double t = std::tanh(inner(x));
                                 return 0.5 * (1 + t) +
                                        0.5 * x * (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * 0.044715 * x * x);
                               }};
constexpr Activation kRelu{[](double x) { return x > 0 ? x : 0.0; }, [](double x) { return x > 0 ? 1.0 : 0.0; }};

const Activation& activation_of(const Node& node) {
  const std::string name = node.text("activation", "silu");
  return name == "gelu" ? kGelu : name == "gelu_tanh" ? kGeluTanh : name == "relu" ? kRelu : kSilu;
}

// The experts that are here, and one row's way through one of them.
class Layer {
 public:
  explicit Layer(const ExpertRows& in)
      : in_(in),
        here_(in.call.node, "experts", in.gate_up.shape()[0]),
        activation_(activation_of(in.call.node)),
        rows_(numbers_of(in.rows)),
        gate_up_(numbers_of(in.gate_up)),
        down_(numbers_of(in.down)),
        width_(static_cast<std::size_t>(in.gate_up.shape()[2])),
        inner_(static_cast<std::size_t>(in.down.shape()[2])),
        out_width_(static_cast<std::size_t>(in.down.shape()[1])),
        before_(2 * inner_),
        after_(inner_) {}

  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(in_.row_experts.elements()); }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t out_width() const { return out_width_; }

  // The expert of a row, if it is here.
  [[nodiscard]] std::optional<std::size_t> expert(std::size_t row) const {
    const auto global = static_cast<std::int64_t>(in_.row_experts.get(static_cast<std::int64_t>(row)));
    if (global < 0) return std::nullopt;
    const std::optional<std::int64_t> local = here_.local(global);
    return local ? std::optional<std::size_t>(static_cast<std::size_t>(*local)) : std::nullopt;
  }

  void forward(std::size_t row, std::size_t expert, double* out) {
    run(row, expert);
    for (std::size_t o = 0; o < out_width_; ++o) {
      const double* weights = &down_[(expert * out_width_ + o) * inner_];
      double sum = 0;
      for (std::size_t i = 0; i < inner_; ++i) sum += weights[i] * after_[i];
      out[o] = sum;
    }
  }

  // `gradient`: of the row's weighted result.
  void backward(std::size_t row, std::size_t expert, double row_weight, const double* gradient,
                ExpertRowGradients& sums) {
    run(row, expert);
    double* row_gradient = &sums.rows[row * width_];
    Numbers inner_gradient(2 * inner_, 0.0);
    for (std::size_t i = 0; i < inner_; ++i) {
      double sum = 0;
      for (std::size_t o = 0; o < out_width_; ++o) {
        const std::size_t at = (expert * out_width_ + o) * inner_ + i;
        sum += gradient[o] * down_[at];
        sums.down[at] += row_weight * gradient[o] * after_[i];
      }
      sums.row_weights[row] += sum * after_[i];
      const double gate = before_[i];
      inner_gradient[i] = row_weight * sum * activation_.slope(gate) * before_[inner_ + i];
      inner_gradient[inner_ + i] = row_weight * sum * activation_.value(gate);
    }
    const double* input = &rows_[row * width_];
    for (std::size_t j = 0; j < 2 * inner_; ++j) {
      const std::size_t at = (expert * 2 * inner_ + j) * width_;
      for (std::size_t h = 0; h < width_; ++h) {
        row_gradient[h] += inner_gradient[j] * gate_up_[at + h];
        sums.gate_up[at + h] += inner_gradient[j] * input[h];
      }
    }
  }

 private:
  void run(std::size_t row, std::size_t expert) {
    const double* input = &rows_[row * width_];
    for (std::size_t j = 0; j < 2 * inner_; ++j) {
      const double* weights = &gate_up_[(expert * 2 * inner_ + j) * width_];
      double sum = 0;
      for (std::size_t h = 0; h < width_; ++h) sum += weights[h] * input[h];
      before_[j] = sum;
    }
    for (std::size_t i = 0; i < inner_; ++i) after_[i] = activation_.value(before_[i]) * before_[inner_ + i];
  }

  const ExpertRows& in_;
  const ShardIndex here_;
  const Activation& activation_;
  const Numbers rows_, gate_up_, down_;
  const std::size_t width_, inner_, out_width_;
  Numbers before_, after_;  // the activation, of the row at hand
};

// Every token once for each of its experts.
Tensor repeated(const Tensor& tokens, std::int64_t times) {
  TensorType type = tokens.type();
  const std::int64_t width = type.shape[1];
  type.shape = {type.shape[0], times, width};
  Tensor made(type);
  for (std::int64_t row = 0; row < type.shape[0] * times; ++row) {
    for (std::int64_t c = 0; c < width; ++c) made.set(row * width + c, tokens.get(row / times * width + c));
  }
  return made;
}

Numbers sum_of_each(const Numbers& rows, std::int64_t times, std::int64_t width, const Tensor* weights) {
  Numbers sums(rows.size() / static_cast<std::size_t>(times), 0.0);
  const auto columns = static_cast<std::size_t>(width), copies = static_cast<std::size_t>(times);
  for (std::size_t row = 0; row < rows.size() / columns; ++row) {
    const double weight = weights != nullptr ? weights->get(static_cast<std::int64_t>(row)) : 1;
    for (std::size_t c = 0; c < columns; ++c) sums[row / copies * columns + c] += weight * rows[row * columns + c];
  }
  return sums;
}

}  // namespace

Numbers expert_rows(const ExpertRows& in) {
  Layer layer(in);
  Numbers out(layer.rows() * layer.out_width(), 0.0);
  for (std::size_t row = 0; row < layer.rows(); ++row) {
    if (const auto expert = layer.expert(row)) layer.forward(row, *expert, &out[row * layer.out_width()]);
  }
  return out;
}

ExpertRowGradients expert_row_gradients(const ExpertRows& in, const Tensor& row_weights, const Tensor& row_gradients) {
  Layer layer(in);
  const Numbers gradients = numbers_of(row_gradients);
  ExpertRowGradients sums{Numbers(layer.rows() * layer.width(), 0.0), Numbers(layer.rows(), 0.0),
                          Numbers(static_cast<std::size_t>(in.gate_up.elements()), 0.0),
                          Numbers(static_cast<std::size_t>(in.down.elements()), 0.0)};
  for (std::size_t row = 0; row < layer.rows(); ++row) {
    const auto expert = layer.expert(row);
    if (!expert) continue;
    layer.backward(row, *expert, row_weights.get(static_cast<std::int64_t>(row)), &gradients[row * layer.out_width()],
                   sums);
  }
  return sums;
}

Result<std::vector<Tensor>> evaluate_experts(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool backward = call.node.op == kExpertsBackward;
  const std::size_t first = backward ? 1 : 0;
  const Tensor &hidden = *operands[first], &indices = *operands[first + 1], &weights = *operands[first + 2];
  const std::int64_t copies = indices.shape()[1];
  const ShardIndex experts(call.node, "experts", operands[first + 3]->shape()[0]);
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    const double index = indices.get(i);
    if (index < 0 || index >= static_cast<double>(experts.global_size())) {
      return bad_input("expert " + std::to_string(static_cast<std::int64_t>(index)) + " is not one of the layer's " +
                       std::to_string(experts.global_size()));
    }
  }
  const Tensor rows = repeated(hidden, copies);
  const ExpertRows in{call, rows, indices, *operands[first + 3], *operands[first + 4]};
  if (!backward) {
    return std::vector<Tensor>{
        tensor_of(call.results[0], sum_of_each(expert_rows(in), copies, call.results[0].shape[1], &weights))};
  }
  const ExpertRowGradients sums = expert_row_gradients(in, weights, repeated(*operands[0], copies));
  return std::vector<Tensor>{
      tensor_of(call.results[0], sum_of_each(sums.rows, copies, call.results[0].shape[1], nullptr)),
      tensor_of(call.results[1], sums.row_weights), tensor_of(call.results[2], sums.gate_up),
      tensor_of(call.results[3], sums.down)};
}

}  // namespace meshwright
