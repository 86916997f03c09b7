#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "norm.h"
#include "numbers.h"

namespace meshwright {

namespace {

constexpr const char* kRmsBackward = "meshwright.rms_norm_backward";

// The lines along which statistics are taken: position i of line (outer, inner).
struct Lines {
  std::int64_t outer = 1, extent = 1, inner = 1;

  Lines(const Node& node, const std::vector<std::int64_t>& shape) {
    const auto [first, last] = normalized_dimensions(node, static_cast<std::int64_t>(shape.size()));
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
      (d < first ? outer : d <= last ? extent : inner) *= shape[static_cast<std::size_t>(d)];
    }
  }
  [[nodiscard]] std::int64_t at(std::int64_t o, std::int64_t i, std::int64_t k) const {
    return (o * extent + i) * inner + k;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t k = 0; k < inner; ++k) visit(o, k);
    }
  }
};

std::vector<double> line_of(const Tensor& tensor, const Lines& lines, std::int64_t o, std::int64_t k) {
  std::vector<double> numbers(to_size(lines.extent));
  for (std::int64_t i = 0; i < lines.extent; ++i) numbers[to_size(i)] = tensor.get(lines.at(o, i, k));
  return numbers;
}

void set_line(Tensor& tensor, const Lines& lines, std::int64_t o, std::int64_t k, const std::vector<double>& numbers) {
  for (std::int64_t i = 0; i < lines.extent; ++i) tensor.set(lines.at(o, i, k), numbers[static_cast<std::size_t>(i)]);
}

void softmax(std::vector<double>& x, bool log) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double number : x) sum += std::exp(number - largest);
  for (double& number : x) number = log ? number - largest - std::log(sum) : std::exp(number - largest) / sum;
}

// grad·y − y·Σ grad·y, and for the logarithm grad − exp(y)·Σ grad.
void softmax_backward(std::vector<double>& gradient, const std::vector<double>& y, bool log) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += log ? gradient[i] : gradient[i] * y[i];
  for (std::size_t i = 0; i < y.size(); ++i) {
    gradient[i] = log ? gradient[i] - std::exp(y[i]) * sum : (gradient[i] - sum) * y[i];
  }
}

double epsilon_of(const Node& node, DType dtype) {
  if (node.op != "aten.rms_norm" && node.op != kRmsBackward) return node.number("eps", 1e-5);
  // rms_norm without eps takes the dtype's own.
  const bool wide = dtype == DType::float64;
  return node.number("eps",
                          wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon());
}

struct Statistics {
  double mean = 0, inverse = 1;  // 1 / deviation
};

// The root mean square has no mean.
Statistics statistics_of(const std::vector<double>& x, bool rms, double epsilon) {
  const auto count = static_cast<double>(x.size());
  Statistics made;
  if (!rms) made.mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  double square = 0;
  for (const double number : x) square += (number - made.mean) * (number - made.mean);
  made.inverse = 1 / std::sqrt(square / count + epsilon);
  return made;
}

void normalize(std::vector<double>& x, const Statistics& statistics) {
  for (double& number : x) number = (number - statistics.mean) * statistics.inverse;
}

std::vector<Tensor> norm_forward(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool rms = call.node.op == "aten.rms_norm";
  const Tensor& input = *operands[0];
  const auto weight_index = call.node.operand_index("weight"), bias_index = call.node.operand_index("bias");
  const Tensor* weight = weight_index ? operands[*weight_index] : nullptr;
  const Tensor* bias = bias_index ? operands[*bias_index] : nullptr;
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < call.results.size(); ++i) results.push_back(call.zeros(i));
  const Lines lines(call.node, input.shape());
  lines.for_each([&](std::int64_t o, std::int64_t k) {
    std::vector<double> x = line_of(input, lines, o, k);
    const Statistics statistics = statistics_of(x, rms, epsilon_of(call.node, input.type().dtype));
    normalize(x, statistics);
    if (results.size() == 3) {
      results[1].set(o, statistics.mean);
      results[2].set(o, statistics.inverse);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (weight) x[i] *= weight->get(at);
      if (bias) x[i] += bias->get(at);
    }
    set_line(results[0], lines, o, k, x);
  });
  return results;
}

// With y the normalized input and h = grad·weight: (h − mean(h) − y·mean(h·y)) / deviation; the weight's gradient is
// Σ grad·y over lines, the bias' Σ grad. The root mean square lacks the term mean(h).
std::vector<Tensor> norm_backward(const OpCall& call, std::span<const Tensor* const> operands) {
  const bool rms = call.node.op == kRmsBackward;
  const Tensor& gradient = *operands[0];
  const Tensor& input = *operands[1];
  const auto weight_index = call.node.operand_index("weight");
  const Tensor* weight = weight_index ? operands[*weight_index] : nullptr;
  const bool given = call.node.op == kNativeLayerNormBackward;
  Tensor of_input = gives_gradient(call.node, 0) ? call.result(0) : Tensor(input.type());
  const Lines lines(call.node, input.shape());
  std::vector<double> of_weight(static_cast<std::size_t>(lines.extent), 0), of_bias(of_weight);
  lines.for_each([&](std::int64_t o, std::int64_t k) {
    std::vector<double> y = line_of(input, lines, o, k), h = line_of(gradient, lines, o, k);
    const Statistics statistics = given ? Statistics{operands[2]->get(o), operands[3]->get(o)}
                                        : statistics_of(y, rms, epsilon_of(call.node, input.type().dtype));
    normalize(y, statistics);
    double sum = 0, product = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      of_weight[i] += h[i] * y[i];
      of_bias[i] += h[i];
      if (weight) h[i] *= weight->get(static_cast<std::int64_t>(i));
      sum += h[i];
      product += h[i] * y[i];
    }
    const auto count = static_cast<double>(y.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      h[i] = (h[i] - (rms ? 0 : sum / count) - y[i] * product / count) * statistics.inverse;
    set_line(of_input, lines, o, k, h);
  });
  std::vector<Tensor> results;
  if (gives_gradient(call.node, 0)) results.push_back(std::move(of_input));
  if (gives_gradient(call.node, 1) && results.size() < call.results.size()) {
    results.push_back(written(call.result(results.size()), of_weight));
  }
  if (gives_gradient(call.node, 2) && results.size() < call.results.size()) {
    results.push_back(written(call.result(results.size()), of_bias));
  }
  return results;
}

}  // namespace

Result<std::vector<Tensor>> norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (!is_softmax(call.node)) {
    if (is_backward(call.node)) return norm_backward(call, operands);
    return norm_forward(call, operands);
  }
  const bool log = call.node.op.find("log") != std::string::npos;
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.result(0));
  const Lines lines(call.node, result.shape());
  lines.for_each([&](std::int64_t o, std::int64_t k) {
    std::vector<double> x = line_of(*operands[0], lines, o, k);
    if (is_backward(call.node))
      softmax_backward(x, line_of(*operands[1], lines, o, k), log);
    else
      softmax(x, log);
    set_line(result, lines, o, k, x);
  });
  return results;
}

}  // namespace meshwright
