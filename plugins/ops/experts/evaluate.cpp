#include <algorithm>
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

// How a layer's weights are stored, and what its two halves are: see experts.h.
class Form {
 public:
  explicit Form(const ExpertRows& in)
      : in_first_(in.call.node.boolean("in_first", false)),
        interleaved_(in.call.node.boolean("interleaved", false)),
        clamped_(in.call.node.text("activation", "silu") == "clamped"),
        alpha_(in.call.node.number("alpha", 1)),
        limit_(in.call.node.number("limit", 0)),
        activation_(activation_of(in.call.node)),
        width(static_cast<std::size_t>(in.gate_up.shape()[in_first_ ? 1 : 2])),
        inner(static_cast<std::size_t>(in.down.shape()[in_first_ ? 1 : 2])),
        out_width(static_cast<std::size_t>(in.down.shape()[in_first_ ? 2 : 1])) {}

  // Where among the 2i numbers of a row its gate and its other half are.
  [[nodiscard]] std::size_t gate_at(std::size_t i) const { return interleaved_ ? 2 * i : i; }
  [[nodiscard]] std::size_t up_at(std::size_t i) const { return interleaved_ ? 2 * i + 1 : inner + i; }

  [[nodiscard]] std::size_t gate_up_at(std::size_t expert, std::size_t j, std::size_t h) const {
    return in_first_ ? (expert * width + h) * 2 * inner + j : (expert * 2 * inner + j) * width + h;
  }
  [[nodiscard]] std::size_t down_at(std::size_t expert, std::size_t o, std::size_t i) const {
    return in_first_ ? (expert * inner + i) * out_width + o : (expert * out_width + o) * inner + i;
  }

  [[nodiscard]] double gate(double x) const {
    if (!clamped_) return activation_.value(x);
    const double g = std::min(x, limit_);
    return g * sigmoid(alpha_ * g);
  }
  [[nodiscard]] double gate_slope(double x) const {
    if (!clamped_) return activation_.slope(x);
    const double s = sigmoid(alpha_ * x);
    return x > limit_ ? 0 : s * (1 + alpha_ * x * (1 - s));
  }
  [[nodiscard]] double up(double x) const { return clamped_ ? std::clamp(x, -limit_, limit_) + 1 : x; }
  [[nodiscard]] double up_slope(double x) const { return clamped_ && std::abs(x) > limit_ ? 0 : 1; }

 private:
  const bool in_first_, interleaved_, clamped_;
  const double alpha_, limit_;
  const Activation& activation_;

 public:
  const std::size_t width, inner, out_width;
};

// The experts that are here, and one row's way through one of them.
class Layer {
 public:
  explicit Layer(const ExpertRows& in)
      : in_(in),
        here_(in.call.node, "experts", in.gate_up.shape()[0]),
        form_(in),
        rows_(numbers_of(in.rows)),
        gate_up_(numbers_of(in.gate_up)),
        down_(numbers_of(in.down)),
        bias_(in.gate_up_bias == nullptr ? Numbers() : numbers_of(*in.gate_up_bias)) {}

  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(in_.row_experts.elements()); }
  [[nodiscard]] std::size_t width() const { return form_.width; }
  [[nodiscard]] std::size_t inner() const { return form_.inner; }
  [[nodiscard]] std::size_t out_width() const { return form_.out_width; }

  // The expert of a row, if it is here.
  [[nodiscard]] std::optional<std::size_t> expert(std::size_t row) const {
    const auto global = static_cast<std::int64_t>(in_.row_experts.get(static_cast<std::int64_t>(row)));
    if (global < 0) return std::nullopt;
    const std::optional<std::int64_t> local = here_.local(global);
    return local ? std::optional<std::size_t>(static_cast<std::size_t>(*local)) : std::nullopt;
  }

  void forward(std::size_t row, std::size_t expert, ExpertRowValues& made) const {
    double* before = &made.inner[row * 2 * inner()];
    for (std::size_t j = 0; j < 2 * inner(); ++j) {
      double sum = bias_.empty() ? 0 : bias_[expert * 2 * inner() + j];
      for (std::size_t h = 0; h < width(); ++h) sum += gate_up_[form_.gate_up_at(expert, j, h)] * rows_[row * width() + h];
      before[j] = sum;
    }
    double* product = &made.product[row * inner()];
    for (std::size_t i = 0; i < inner(); ++i) {
      made.gate[row * inner() + i] = form_.gate(before[form_.gate_at(i)]);
      product[i] = made.gate[row * inner() + i] * form_.up(before[form_.up_at(i)]);
    }
    for (std::size_t o = 0; o < out_width(); ++o) {
      double sum = 0;
      for (std::size_t i = 0; i < inner(); ++i) sum += down_[form_.down_at(expert, o, i)] * product[i];
      made.outputs[row * out_width() + o] = sum;
    }
  }

  // `gradient`: of the row's weighted result. `made`: what `forward` made.
  void backward(std::size_t row, std::size_t expert, const ExpertRowValues& made, double row_weight, const double* gradient,
                ExpertRowGradients& sums) const {
    for (std::size_t o = 0; o < out_width(); ++o) sums.row_weights[row] += gradient[o] * made.outputs[row * out_width() + o];
    const double* before = &made.inner[row * 2 * inner()];
    Numbers inner_gradient(2 * inner(), 0.0);
    for (std::size_t i = 0; i < inner(); ++i) {
      double sum = 0;
      for (std::size_t o = 0; o < out_width(); ++o) {
        const std::size_t at = form_.down_at(expert, o, i);
        sum += gradient[o] * down_[at];
        sums.down[at] += row_weight * gradient[o] * made.product[row * inner() + i];
      }
      const double gate = before[form_.gate_at(i)], up = before[form_.up_at(i)];
      inner_gradient[form_.gate_at(i)] = row_weight * sum * form_.up(up) * form_.gate_slope(gate);
      inner_gradient[form_.up_at(i)] = row_weight * sum * made.gate[row * inner() + i] * form_.up_slope(up);
    }
    const double* input = &rows_[row * width()];
    double* row_gradient = &sums.rows[row * width()];
    for (std::size_t j = 0; j < 2 * inner(); ++j) {
      if (!bias_.empty()) sums.gate_up_bias[expert * 2 * inner() + j] += inner_gradient[j];
      for (std::size_t h = 0; h < width(); ++h) {
        const std::size_t at = form_.gate_up_at(expert, j, h);
        row_gradient[h] += inner_gradient[j] * gate_up_[at];
        sums.gate_up[at] += inner_gradient[j] * input[h];
      }
    }
  }

 private:
  const ExpertRows& in_;
  const ShardIndex here_;
  const Form form_;
  const Numbers rows_, gate_up_, down_, bias_;
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

ExpertRowValues expert_rows(const ExpertRows& in) {
  const Layer layer(in);
  const std::size_t rows = layer.rows();
  ExpertRowValues made{Numbers(rows * 2 * layer.inner(), 0.0), Numbers(rows * layer.inner(), 0.0),
                       Numbers(rows * layer.inner(), 0.0), Numbers(rows * layer.out_width(), 0.0)};
  for (std::size_t row = 0; row < rows; ++row) {
    if (const auto expert = layer.expert(row)) layer.forward(row, *expert, made);
  }
  return made;
}

ExpertRowGradients expert_row_gradients(const ExpertRows& in, const ExpertRowsSaved& saved, const Tensor& row_weights,
                                        const Tensor& row_gradients) {
  const Layer layer(in);
  const ExpertRowValues made{numbers_of(saved.inner), numbers_of(saved.gate), numbers_of(saved.product),
                             numbers_of(saved.outputs)};
  const Numbers gradients = numbers_of(row_gradients);
  ExpertRowGradients sums{Numbers(layer.rows() * layer.width(), 0.0), Numbers(layer.rows(), 0.0),
                          Numbers(static_cast<std::size_t>(in.gate_up.elements()), 0.0),
                          Numbers(static_cast<std::size_t>(in.down.elements()), 0.0),
                          Numbers(static_cast<std::size_t>(in.gate_up_bias == nullptr ? 0 : in.gate_up_bias->elements()), 0.0)};
  for (std::size_t row = 0; row < layer.rows(); ++row) {
    const auto expert = layer.expert(row);
    if (!expert) continue;
    layer.backward(row, *expert, made, row_weights.get(static_cast<std::int64_t>(row)),
                   &gradients[row * layer.out_width()], sums);
  }
  return sums;
}

namespace {

Result<std::vector<Tensor>> evaluate_forward(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor &indices = *operands[1], &weights = *operands[2];
  const std::int64_t copies = indices.shape()[1];
  Tensor rows = repeated(*operands[0], copies);
  const ExpertRowValues made = expert_rows({call, rows, indices, *operands[3], *operands[4], operands.size() > 5 ? operands[5] : nullptr});
  const Numbers sums = sum_of_each(made.outputs, copies, call.results[0].shape[1], &weights);
  std::vector<Tensor> results = listed(written(call.result(0), sums), std::move(rows));
  const Numbers* const saved[] = {&made.inner, &made.gate, &made.product, &made.outputs};
  for (std::size_t i = 0; i < std::size(saved); ++i) results.push_back(written(call.result(2 + i), *saved[i]));
  return results;
}

Result<std::vector<Tensor>> evaluate_backward(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor &indices = *operands[1], &weights = *operands[2];
  const std::int64_t copies = indices.shape()[1];
  const ExpertRowGradients sums =
      expert_row_gradients({call, *operands[5], indices, *operands[3], *operands[4], operands.size() > 10 ? operands[10] : nullptr},
                           {*operands[6], *operands[7], *operands[8], *operands[9]}, weights, repeated(*operands[0], copies));
  std::vector<Tensor> results =
      listed(written(call.result(0), sum_of_each(sums.rows, copies, call.results[0].shape[1], nullptr)),
             written(call.result(1), sums.row_weights), written(call.result(2), sums.gate_up), written(call.result(3), sums.down));
  if (call.results.size() > 4) results.push_back(written(call.result(4), sums.gate_up_bias));
  return results;
}

}  // namespace

Result<std::vector<Tensor>> evaluate_experts(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor& indices = *operands[1];
  const ShardIndex experts(call.node, "experts", operands[3]->shape()[0]);
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    const double index = indices.get(i);
    if (index < 0 || index >= static_cast<double>(experts.global_size())) {
      return bad_input("expert " + std::to_string(static_cast<std::int64_t>(index)) + " is not one of the layer's " +
                       std::to_string(experts.global_size()));
    }
  }
  return call.node.op == kExpertsBackward ? evaluate_backward(call, operands) : evaluate_forward(call, operands);
}

}  // namespace meshwright
