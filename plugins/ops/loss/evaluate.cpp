#include <algorithm>
#include <cmath>
#include <numeric>

#include "loss.h"
#include "numbers.h"

namespace meshwright {

namespace {

// Logits n × c × rest, their labels n × rest, and how much each position counts.
class LossProblem {
 public:
  LossProblem(const Node& node, const Tensor& logits, const Tensor& target, const Tensor* weight)
      : logits_(logits),
        target_(target),
        weight_(weight),
        ignored_(node.integer("ignore_index", -100)),
        smoothing_(smoothing_of(node)),
        probabilities_(is_floating(target.type().dtype)),
        classes_(logits.shape()[logits.type().rank() > 1 ? 1 : 0]) {
    for (std::size_t i = 2; i < logits.shape().size(); ++i) rest_ *= logits.shape()[i];
  }

  [[nodiscard]] std::int64_t positions() const { return logits_.elements() / classes_; }
  [[nodiscard]] std::int64_t classes() const { return classes_; }
  [[nodiscard]] std::int64_t label(std::int64_t position) const {
    return static_cast<std::int64_t>(target_.get(position));
  }

  // How much the position counts in a mean: 0 for a label that is ignored.
  [[nodiscard]] double share(std::int64_t position) const {
    if (probabilities_) return 1;
    if (label(position) == ignored_) return 0;
    return weight_ ? weight_->get(label(position)) : 1;
  }

  // What the position's loss is a sum of: the target's probability of each class, times its weight.
  void read_wanted(std::int64_t position, std::vector<double>& wanted) const {
    wanted.assign(to_size(classes_), smoothing_ / static_cast<double>(classes_));
    if (probabilities_) {
      for (std::int64_t c = 0; c < classes_; ++c) wanted[to_size(c)] += (1 - smoothing_) * target_.get(at(position, c));
    } else {
      wanted[to_size(label(position))] += 1 - smoothing_;
    }
    for (std::int64_t c = 0; weight_ && c < classes_; ++c) wanted[to_size(c)] *= weight_->get(c);
  }

  [[nodiscard]] bool labels_are_known() const {
    if (probabilities_) return true;
    for (std::int64_t i = 0; i < positions(); ++i) {
      if (label(i) != ignored_ && (label(i) < 0 || label(i) >= classes_)) return false;
    }
    return true;
  }

  void read_logits(std::int64_t position, std::vector<double>& logits) const {
    const std::int64_t first = at(position, 0);
    logits.resize(to_size(classes_));
    for (std::int64_t c = 0; c < classes_; ++c) logits[to_size(c)] = logits_.get(first + c * rest_);
  }

  // Where a class' logit of a position stands.
  [[nodiscard]] std::int64_t at(std::int64_t position, std::int64_t c) const {
    return (position / rest_ * classes_ + c) * rest_ + position % rest_;
  }

 private:
  const Tensor& logits_;
  const Tensor& target_;
  const Tensor* weight_;
  const std::int64_t ignored_;
  const double smoothing_;
  const bool probabilities_;
  const std::int64_t classes_;
  std::int64_t rest_ = 1;
};

// log Σ exp
double normalizer_of(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

void add_losses(const LossProblem& problem, LossReduction reduction, Tensor& result) {
  double sum = 0, shares = 0;
  std::vector<double> logits, wanted;
  for (std::int64_t i = 0; i < problem.positions(); ++i) {
    const double share = problem.share(i);
    double loss = 0;
    if (share != 0) {
      problem.read_logits(i, logits);
      problem.read_wanted(i, wanted);
      const double normalizer = normalizer_of(logits);
      for (std::size_t c = 0; c < logits.size(); ++c) {
        if (wanted[c] != 0) loss += wanted[c] * (normalizer - logits[c]);
      }
    }
    if (reduction == LossReduction::none) result.set(i, loss);
    sum += loss;
    shares += share;
  }
  if (reduction != LossReduction::none) result.set(0, reduction == LossReduction::mean ? sum / shares : sum);
}

// grad × (probability × Σ wanted − wanted), over all shares for a mean.
void add_gradients(const LossProblem& problem, LossReduction reduction, const Tensor& gradient, Tensor& result) {
  double shares = 0;
  std::vector<double> logits, wanted;
  for (std::int64_t i = 0; i < problem.positions(); ++i) shares += problem.share(i);
  for (std::int64_t i = 0; i < problem.positions(); ++i) {
    double scale = gradient.get(reduction == LossReduction::none ? i : 0);
    if (scale == 0 || problem.share(i) == 0) continue;
    if (reduction == LossReduction::mean) scale /= shares;
    problem.read_logits(i, logits);
    problem.read_wanted(i, wanted);
    const double normalizer = normalizer_of(logits), all = std::accumulate(wanted.begin(), wanted.end(), 0.0);
    for (std::size_t c = 0; c < logits.size(); ++c) {
      result.set(problem.at(i, static_cast<std::int64_t>(c)), scale * (std::exp(logits[c] - normalizer) * all - wanted[c]));
    }
  }
}

}  // namespace

Result<std::vector<Tensor>> loss_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const auto operand = [&](std::string_view name) -> const Tensor* {
    const auto index = call.node.operand_index(name);
    return index ? operands[*index] : nullptr;
  };
  const LossProblem problem(call.node, *operand("self"), *operand("target"), operand("weight"));
  if (!problem.labels_are_known()) return bad_input("a label is outside of the classes");
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.zeros(0));
  if (is_backward(call.node))
    add_gradients(problem, reduction_of(call.node), *operands[0], result);
  else
    add_losses(problem, reduction_of(call.node), result);
  return results;
}

}  // namespace meshwright
