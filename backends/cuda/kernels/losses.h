// Cross entropy of logits n × c and labels, in steps, since other ranks may have some of the classes
// (plugins/ops/loss/loss.h).
#pragma once

#include "lookups.h"

namespace meshwright::cuda {

enum class LossReduction : int32_t { none, mean, sum };

// All lie row by row. `terms`, 3 × n: Σ exp(x − maximum); x − maximum of the label; the label's weight, 0 if it is
// ignored.
struct LossArguments {
  int64_t positions = 0, classes = 0, ignored = -100;
  LossReduction reduction = LossReduction::mean;
  bool has_count = false, has_weight = false;
  View logits, labels, maximum, terms, count, weight, gradient, result;
  Shard shard;  // of the classes
};

MESHWRIGHT_ROW_KERNEL(loss_maximum, LossArguments) {
  double largest = -INFINITY;
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const double logit = load(arguments.logits, index * arguments.classes + c);
    if (global_of(arguments.shard, c) >= 0 && logit > largest) largest = logit;
  }
  largest = maximum_of_lanes(largest);
  if (lane == 0) store(arguments.maximum, index, largest);
}

MESHWRIGHT_ROW_KERNEL(loss_terms, LossArguments) {
  const double largest = load(arguments.maximum, index);
  double sum = 0;
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    if (global_of(arguments.shard, c) >= 0) sum += exp(load(arguments.logits, index * arguments.classes + c) - largest);
  }
  sum = sum_of_lanes(sum);
  if (lane != 0) return;
  const int64_t label = static_cast<int64_t>(load(arguments.labels, index));
  const int64_t here = label == arguments.ignored ? -1 : local_of(arguments.shard, label);
  store(arguments.terms, index, sum);
  store(arguments.terms, arguments.positions + index,
        here < 0 ? 0 : load(arguments.logits, index * arguments.classes + here) - largest);
  store(arguments.terms, 2 * arguments.positions + index,
        here < 0               ? 0
        : arguments.has_weight ? load(arguments.weight, here)
                               : 1);
}

// One index for all.
MESHWRIGHT_ROW_KERNEL(loss_count, LossArguments) {
  double sum = 0;
  for (int64_t n = lane; n < arguments.positions; n += kLanes)
    sum += load(arguments.terms, 2 * arguments.positions + n);
  sum = sum_of_lanes(sum);
  if (lane == 0) store(arguments.count, index, sum);
}

MESHWRIGHT_DEVICE double loss_of(const LossArguments& arguments, int64_t position) {
  const double share = load(arguments.terms, 2 * arguments.positions + position);
  return share == 0
             ? 0
             : share * (::log(load(arguments.terms, position)) - load(arguments.terms, arguments.positions + position));
}

// One index for all, or, without a reduction, for each position.
MESHWRIGHT_ROW_KERNEL(loss_combine, LossArguments) {
  if (arguments.reduction == LossReduction::none) {
    if (lane == 0) store(arguments.result, index, loss_of(arguments, index));
    return;
  }
  double sum = 0;
  for (int64_t n = lane; n < arguments.positions; n += kLanes) sum += loss_of(arguments, n);
  sum = sum_of_lanes(sum);
  if (lane == 0) store(arguments.result, index, arguments.has_count ? sum / load(arguments.count, 0) : sum);
}

// One index a logit.
MESHWRIGHT_KERNEL(loss_gradient, LossArguments) {
  const int64_t n = quotient(index, arguments.classes), c = index - n * arguments.classes;
  double scale = load(arguments.terms, 2 * arguments.positions + n) *
                 load(arguments.gradient, arguments.reduction == LossReduction::none ? n : 0);
  if (scale == 0 || global_of(arguments.shard, c) < 0) {
    store(arguments.result, index, 0);
    return;
  }
  if (arguments.has_count) scale /= load(arguments.count, 0);
  const double probability = exp(load(arguments.logits, index) - load(arguments.maximum, n)) / load(arguments.terms, n);
  const bool is_label = local_of(arguments.shard, static_cast<int64_t>(load(arguments.labels, n))) == c;
  store(arguments.result, index, scale * (probability - (is_label ? 1 : 0)));
}

}  // namespace meshwright::cuda
