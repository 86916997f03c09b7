#include <cmath>

#include "group_norm.h"
#include "numbers.h"

namespace meshwright {

namespace {

// Which group, example by example, and which channel an element is in.
class Groups {
 public:
  Groups(const Node& node, const TensorType& input) : channels_(input.shape[1]), per_example_(groups_of(node, channels_)) {
    for (std::size_t i = 2; i < input.shape.size(); ++i) space_ *= input.shape[i];
    group_ = channels_ / per_example_ * space_;
    count_ = input.elements() / group_;
  }
  [[nodiscard]] std::size_t count() const { return to_size(count_); }
  [[nodiscard]] double elements() const { return static_cast<double>(group_); }
  [[nodiscard]] std::size_t of(std::size_t element) const { return element / to_size(group_); }
  [[nodiscard]] std::size_t channel(std::size_t element) const { return element / to_size(space_) % to_size(channels_); }

 private:
  std::int64_t channels_, per_example_, space_ = 1, group_ = 1, count_ = 1;
};

// By group.
struct GroupStatistics {
  Numbers mean, rstd;
};

GroupStatistics statistics_of(const Groups& groups, const Numbers& x, double epsilon) {
  GroupStatistics made{Numbers(groups.count(), 0.0), Numbers(groups.count(), 0.0)};
  for (std::size_t i = 0; i < x.size(); ++i) made.mean[groups.of(i)] += x[i] / groups.elements();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = x[i] - made.mean[groups.of(i)];
    made.rstd[groups.of(i)] += difference * difference / groups.elements();
  }
  for (double& number : made.rstd) number = 1 / std::sqrt(number + epsilon);
  return made;
}

const Tensor* find(const OpCall& call, std::span<const Tensor* const> operands, std::string_view name) {
  const auto index = call.node.operand_index(name);
  return index ? operands[*index] : nullptr;
}

double at(const Tensor* tensor, std::size_t i, double otherwise) {
  return tensor ? tensor->get(static_cast<std::int64_t>(i)) : otherwise;
}

// With y the normalized input and h = grad·weight: (h − mean(h) − y·mean(h·y))·rstd; the weight's gradient is Σ grad·y, the
// bias' Σ grad.
std::vector<Tensor> backward(const OpCall& call, const Groups& groups, std::span<const Tensor* const> operands, const Numbers& x,
                             const GroupStatistics& statistics) {
  const Tensor* weight = find(call, operands, "weight");
  Numbers gradient = numbers_of(*operands[0]), y = x, sum(groups.count(), 0.0), product = sum;
  const std::size_t channels = to_size(call.operands[0].shape[1]);
  Numbers of_weight(channels, 0.0), of_bias(channels, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = groups.of(i), c = groups.channel(i);
    y[i] = (x[i] - statistics.mean[g]) * statistics.rstd[g];
    of_weight[c] += gradient[i] * y[i];
    of_bias[c] += gradient[i];
    gradient[i] *= at(weight, c, 1);
    sum[g] += gradient[i] / groups.elements();
    product[g] += gradient[i] * y[i] / groups.elements();
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = groups.of(i);
    gradient[i] = (gradient[i] - sum[g] - y[i] * product[g]) * statistics.rstd[g];
  }
  std::vector<Tensor> results;
  const Numbers* all[] = {&gradient, &of_weight, &of_bias};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    if (gives_gradient(call.node, i) && results.size() < call.results.size()) {
      results.push_back(written(call.result(results.size()), *all[i]));
    }
  }
  return results;
}

}  // namespace

Result<std::vector<Tensor>> group_norm_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor& input = *find(call, operands, "input");
  const Groups groups(call.node, input.type());
  Numbers x = numbers_of(input);
  GroupStatistics statistics;
  if (call.node.op == kNativeBackward) {
    statistics = {numbers_of(*find(call, operands, "mean")), numbers_of(*find(call, operands, "rstd"))};
  } else {
    statistics = statistics_of(groups, x, call.node.number("eps", 1e-5));
  }
  if (is_backward(call.node)) return backward(call, groups, operands, x, statistics);
  const Tensor *weight = find(call, operands, "weight"), *bias = find(call, operands, "bias");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = groups.of(i), c = groups.channel(i);
    x[i] = (x[i] - statistics.mean[g]) * statistics.rstd[g] * at(weight, c, 1) + at(bias, c, 0);
  }
  std::vector<Tensor> results;
  results.push_back(written(call.result(0), x));
  if (call.results.size() < 3) return results;
  results.push_back(written(call.result(1), statistics.mean));
  results.push_back(written(call.result(2), statistics.rstd));
  return results;
}

}  // namespace meshwright
