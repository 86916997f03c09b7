#include <algorithm>
#include <cmath>
#include <limits>
#include <functional>
#include <numeric>

#include "broadcast.h"
#include "numbers.h"
#include "statistics.h"

namespace meshwright {

namespace {

double mean_of(const Numbers& line) { return std::accumulate(line.begin(), line.end(), 0.0) / static_cast<double>(line.size()); }

double variance_of(const Numbers& line, double correction) {
  const double mean = mean_of(line);
  double sum = 0;
  for (const double number : line) sum += (number - mean) * (number - mean);
  return sum / std::max(static_cast<double>(line.size()) - correction, 0.0);
}

double log_sum_exp(const Numbers& line) {
  const double largest = *std::ranges::max_element(line);
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const double number : line) sum += std::exp(number - largest);
  return largest + std::log(sum);
}

// (Σ |x|^order)^(1/order); an infinite order takes the largest or the smallest, 0 counts.
double vector_norm(const Numbers& line, double order) {
  double norm = order < 0 && std::isinf(order) ? std::numeric_limits<double>::infinity() : 0;
  for (const double number : line) {
    const double size = std::abs(number);
    if (std::isinf(order)) norm = order > 0 ? std::max(norm, size) : std::min(norm, size);
    else if (order == 0) norm += size != 0 ? 1 : 0;
    else norm += order == 2 ? size * size : std::pow(size, order);
  }
  return std::isinf(order) || order == 0 ? norm : order == 2 ? std::sqrt(norm) : std::pow(norm, 1 / order);
}

double statistic_of(const Node& node, const Numbers& line) {
  if (is_variance(node)) {
    const double variance = variance_of(line, correction_of(node));
    return is_deviation(node) ? std::sqrt(variance) : variance;
  }
  if (node.op == "aten.logsumexp") return log_sum_exp(line);
  if (node.op.starts_with("aten.linalg_")) return vector_norm(line, node.number("ord", 2));
  return std::accumulate(line.begin(), line.end(), 1.0, std::multiplies<>());
}

// Without a division, so that zeros among the numbers are no matter.
std::vector<Tensor> prod_backward(const OpCall& call, const Tensor& gradient, const Tensor& self) {
  const BroadcastIndex line_of(kept_shape(call.node, self.type()), self.shape());
  std::vector<std::vector<std::int64_t>> lines(to_size(gradient.elements()));
  for (std::int64_t i = 0; i < self.elements(); ++i) lines[to_size(line_of(i))].push_back(i);
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.zeros(0));
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const std::vector<std::int64_t>& line = lines[l];
    Numbers after(line.size() + 1, 1.0);
    for (std::size_t i = line.size(); i-- > 0;) after[i] = after[i + 1] * self.get(line[i]);
    double before = gradient.get(static_cast<std::int64_t>(l));
    for (std::size_t i = 0; i < line.size(); ++i) {
      result.set(line[i], before * after[i + 1]);
      before *= self.get(line[i]);
    }
  }
  return results;
}

}  // namespace

Result<std::vector<Tensor>> statistics_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (call.node.op == kProdBackward) return prod_backward(call, *operands[0], *operands[1]);
  const Tensor& self = *operands[0];
  const BroadcastIndex line_of(kept_shape(call.node, self.type()), self.shape());
  std::vector<Numbers> lines(to_size(call.results[0].elements()));
  for (std::int64_t i = 0; i < self.elements(); ++i) lines[to_size(line_of(i))].push_back(self.get(i));
  std::vector<Tensor> results;
  for (const TensorType& type : call.results) results.emplace_back(type);
  for (std::size_t l = 0; l < lines.size(); ++l) {
    results[0].set(static_cast<std::int64_t>(l), statistic_of(call.node, lines[l]));
    if (results.size() > 1) results[1].set(static_cast<std::int64_t>(l), mean_of(lines[l]));
  }
  return results;
}

}  // namespace meshwright
