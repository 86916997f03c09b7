// The negative log-likelihood of labels, of log-probabilities n × c × x (plugins/ops/nll_loss/nll_loss.h).
#pragma once

#include "losses.h"

namespace meshwright::cuda {

// All lie row by row. `positions`: n · x, each of which has a label.
struct LikelihoodArguments {
  int64_t positions = 0, classes = 0, space = 1, ignored = -100;
  LossReduction reduction = LossReduction::mean;
  bool has_weight = false;
  bool counts = false;  // the labels' weights alone
  View logs, labels, weight, gradient, result;
  Shard shard;               // of the classes
  int32_t* fault = nullptr;  // as of LookupArguments
};

struct LabelHere {
  int64_t place = -1;  // among the classes that are here; -1: it is ignored, or another rank's
  double weight = 0;
};

MESHWRIGHT_DEVICE LabelHere label_here(const LikelihoodArguments& a, int64_t position) {
  const auto label = load<int64_t>(a.labels, position);
  if (label == a.ignored) return {};
  if (a.counts && !a.has_weight) return {0, 1};
  if (a.fault != nullptr && is_outside(a.shard, label)) *a.fault = 1;
  const int64_t place = local_of(a.shard, label);
  return {place, place < 0 ? 0 : a.has_weight ? load(a.weight, place) : 1};
}

MESHWRIGHT_DEVICE double likelihood_loss(const LikelihoodArguments& a, int64_t position, const LabelHere& label) {
  if (label.place < 0 || a.counts) return 0;
  const int64_t example = quotient(position, a.space), at = position - example * a.space;
  return -label.weight * load(a.logs, (example * a.classes + label.place) * a.space + at);
}

// One index for all, or, without a reduction, for each position.
MESHWRIGHT_BLOCK_KERNEL(likelihood, LikelihoodArguments) {
  const LikelihoodArguments& a = arguments;
  if (a.reduction == LossReduction::none) {
    if (thread == 0) store(a.result, index, likelihood_loss(a, index, label_here(a, index)));
    return;
  }
  double sum = 0, weights = 0;
  for (int64_t position = thread; position < a.positions; position += kThreads) {
    const LabelHere label = label_here(a, position);
    sum += likelihood_loss(a, position, label);
    weights += label.weight;
  }
  sum = sum_of_block(sum);
  weights = sum_of_block(weights);
  if (thread != 0) return;
  store(a.result, index, a.counts ? weights : a.reduction == LossReduction::mean ? sum / weights : sum);
}

// One index an element of what the log-probabilities are.
MESHWRIGHT_KERNEL(likelihood_gradient, LikelihoodArguments) {
  const LikelihoodArguments& a = arguments;
  const int64_t row = quotient(index, a.space), example = quotient(row, a.classes), place = row - example * a.classes,
                position = example * a.space + index - row * a.space;
  const LabelHere label = label_here(a, position);
  const double gradient = load(a.gradient, a.reduction == LossReduction::none ? position : 0);
  store(a.result, index, label.place == place ? -label.weight * gradient : 0);
}

}  // namespace meshwright::cuda
