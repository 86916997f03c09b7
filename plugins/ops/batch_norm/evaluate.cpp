#include <cmath>

#include "batch_norm.h"
#include "numbers.h"

namespace meshwright {

namespace {

// The channel of each element of n c x*.
class Channels {
 public:
  explicit Channels(const TensorType& input) : count_(input.shape[1]) {
    for (std::size_t i = 2; i < input.shape.size(); ++i) space_ *= input.shape[i];
  }
  [[nodiscard]] std::size_t of(std::size_t element) const {
    return element / to_size(space_) % to_size(count_);
  }
  [[nodiscard]] std::size_t count() const { return to_size(count_); }

 private:
  std::int64_t count_, space_ = 1;
};

const Tensor* find(const OpCall& call, std::span<const Tensor* const> operands, std::string_view name) {
  const auto index = call.node.operand_index(name);
  return index ? operands[*index] : nullptr;
}

// Elements of a channel, on all ranks together.
double count_of(const OpCall& call, const Tensor& input, const Channels& channels) {
  return call.node.number("count", static_cast<double>(input.elements()) / static_cast<double>(channels.count()));
}

Numbers mean_of(const Numbers& x, const Channels& channels, double count) {
  Numbers mean(channels.count(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) mean[channels.of(i)] += x[i] / count;
  return mean;
}

Numbers variance_of(const Numbers& x, const Numbers& mean, const Channels& channels, double count) {
  Numbers variance(channels.count(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = x[i] - mean[channels.of(i)];
    variance[channels.of(i)] += difference * difference / count;
  }
  return variance;
}

// The forward, from the statistics that it normalizes with.
std::vector<Tensor> apply(const OpCall& call, std::span<const Tensor* const> operands, Numbers mean, Numbers variance) {
  const Tensor& input = *operands[0];
  const Channels channels(input.type());
  const double count = count_of(call, input, channels), momentum = call.node.number("momentum", 0.1);
  const Tensor *weight = find(call, operands, "weight"), *bias = find(call, operands, "bias");
  Numbers invstd = variance, numbers = numbers_of(input);
  for (double& number : invstd) number = 1 / std::sqrt(number + call.node.number("eps", 1e-5));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t c = channels.of(i);
    const auto at = static_cast<std::int64_t>(c);
    numbers[i] = (numbers[i] - mean[c]) * invstd[c] * (weight ? weight->get(at) : 1) + (bias ? bias->get(at) : 0);
  }
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), numbers));
  if (call.results.size() == 1) return results;
  const bool own = call.results[1].elements() > 0;  // an evaluation saves no statistics
  results.push_back(written(call.result(1), own ? mean : Numbers{}));
  results.push_back(written(call.result(2), own ? invstd : Numbers{}));
  if (call.results.size() == 3) return results;
  const Tensor *running_mean = find(call, operands, "running_mean"), *running_var = find(call, operands, "running_var");
  const double share = trains(call.node) ? momentum : 0;
  for (std::size_t c = 0; c < channels.count(); ++c) {  // the running variance is the unbiased one
    const auto at = static_cast<std::int64_t>(c);
    mean[c] = (1 - share) * running_mean->get(at) + share * mean[c];
    variance[c] = (1 - share) * running_var->get(at) + (share > 0 ? share * variance[c] * count / (count - 1) : 0);
  }
  results.push_back(written(call.result(3), mean));
  results.push_back(written(call.result(4), variance));
  return results;
}

std::vector<Tensor> forward(const OpCall& call, std::span<const Tensor* const> operands) {
  if (const Tensor* mean = find(call, operands, "mean")) {
    return apply(call, operands, numbers_of(*mean), numbers_of(*find(call, operands, "variance")));
  }
  if (!trains(call.node)) {
    return apply(call, operands, numbers_of(*find(call, operands, "running_mean")),
                 numbers_of(*find(call, operands, "running_var")));
  }
  const Channels channels(call.operands[0]);
  const Numbers x = numbers_of(*operands[0]);
  const double count = count_of(call, *operands[0], channels);
  const Numbers mean = mean_of(x, channels, count);
  return apply(call, operands, mean, variance_of(x, mean, channels, count));
}

// With y the normalized input: weight·(grad − Σgrad/count − y·Σ(grad·y)/count) / deviation.
std::vector<Tensor> backward(const OpCall& call, std::span<const Tensor* const> operands) {
  const Channels channels(call.operands[1]);
  const Numbers gradient = numbers_of(*operands[0]), x = numbers_of(*operands[1]), mean = numbers_of(*operands[2]),
                invstd = numbers_of(*operands[3]);
  std::vector<Tensor> results;
  if (call.node.op == kBackwardSums) {
    Numbers sum(channels.count(), 0.0), product = sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = channels.of(i);
      sum[c] += gradient[i];
      product[c] += gradient[i] * (x[i] - mean[c]) * invstd[c];
    }
    results.push_back(written(call.result(0), sum));
    results.push_back(written(call.result(1), product));
    return results;
  }
  const Tensor *weight = find(call, operands, "weight"), *sum = find(call, operands, "sum"),
               *product = find(call, operands, "product");
  const double count = count_of(call, *operands[1], channels);
  Numbers of_input = gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channels.of(i);
    const auto at = static_cast<std::int64_t>(c);
    if (sum) of_input[i] -= (sum->get(at) + (x[i] - mean[c]) * invstd[c] * product->get(at)) / count;
    of_input[i] *= invstd[c] * (weight ? weight->get(at) : 1);
  }
  results.push_back(written(call.result(0), of_input));
  return results;
}

}  // namespace

Result<std::vector<Tensor>> batch_norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (overwrites(call.node)) return bad_input("it updates its running statistics in place");
  if (is_forward(call.node) || call.node.op == kApply) return forward(call, operands);
  if (!is_sharded_step(call.node)) return backward(call, operands);
  const Channels channels(call.operands[0]);
  const double count = count_of(call, *operands[0], channels);
  const Numbers x = numbers_of(*operands[0]);
  const Numbers statistic = call.node.op == kMean ? mean_of(x, channels, count)
                                                  : variance_of(x, numbers_of(*operands[1]), channels, count);
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), statistic));
  return results;
}

}  // namespace meshwright
