// Cross entropy of logits n × c and labels, in steps, since other ranks may have some of the classes
// (plugins/ops/loss/loss.h).
#pragma once

#include "blocks.h"
#include "lookups.h"

namespace meshwright::cuda {

enum class LossReduction : int32_t { none, mean, sum };

// All lie row by row. `terms`, 3 × n: Σ exp(x − maximum); x − maximum of the label; the label's weight, 0 if it is
// ignored.
struct LossArguments {
  int64_t positions = 0, classes = 0, ignored = -100;
  LossReduction reduction = LossReduction::mean;
  bool has_count = false, has_weight = false;
  bool finds_maximum = false;  // with the terms, where no other rank has classes
  double smoothing = 0;        // of labels, of whole rows of classes alone
  View logits, labels, maximum, terms, count, weight, gradient, result;
  View smoothed;             // 2 × n, of smoothed labels: Σ of the classes' weights; of these times x − maximum
  Shard shard;               // of the classes
  int32_t* fault = nullptr;  // as of LookupArguments
};

// Of a position, over its classes that are here.
template <class Real>
MESHWRIGHT_DEVICE Real highest_logit(const LossArguments& arguments, int64_t index, int lane) {
  Real largest = -INFINITY;
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const Real logit = load<Real>(arguments.logits, index * arguments.classes + c);
    if (logit > largest && global_of(arguments.shard, c) >= 0) largest = logit;
  }
  return maximum_of_lanes(largest);
}

MESHWRIGHT_ROW_KERNEL(loss_maximum, LossArguments) {
  if (is_single(arguments.logits.element)) {
    const float largest = highest_logit<float>(arguments, index, lane);
    if (lane == 0) store(arguments.maximum, index, largest);
    return;
  }
  const double largest = highest_logit<double>(arguments, index, lane);
  if (lane == 0) store(arguments.maximum, index, largest);
}

// The sum of exp(x - maximum), of the classes so far, of which the maximum may be found on the way: as of attention's
// scores.
template <class Real>
struct LossSum {
  Real maximum, sum = 0;

  template <int kCount>
  MESHWRIGHT_DEVICE void add(const Real (&logits)[kCount], bool finds_maximum) {
    Real largest = maximum;
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kCount; ++i) largest = finds_maximum && logits[i] > largest ? logits[i] : largest;
    if (largest > maximum) sum = sum == 0 ? 0 : sum * exp(maximum - largest);
    maximum = largest;
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kCount; ++i) sum += logits[i] == -INFINITY ? 0 : exp(logits[i] - maximum);
  }
};

template <class Type>
MESHWRIGHT_DEVICE void find_terms(Type, const LossArguments& arguments, int64_t index, int lane) {
  using Real = typename Type::Real;
  const int64_t first = index * arguments.classes, known = first_ones(arguments.shard, arguments.classes);
  LossSum<Real> own{arguments.finds_maximum ? Real(-INFINITY) : load<Real>(arguments.maximum, index)};
  constexpr int kSome = 8;  // that are read together
  int64_t c = lane;
  for (; c + (kSome - 1) * kLanes < known; c += kSome * kLanes) {
    Real some[kSome];
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kSome; ++i) some[i] = Type::load(arguments.logits, first + c + i * kLanes);
    own.add(some, arguments.finds_maximum);
  }
  for (; c < arguments.classes; c += kLanes) {
    const Real one[] = {Type::load(arguments.logits, first + c)};
    if (known < 0 ? global_of(arguments.shard, c) >= 0 : c < known) own.add(one, arguments.finds_maximum);
  }
  const Real largest = maximum_of_lanes(own.maximum);
  const Real sum = sum_of_lanes(own.sum == 0 ? Real(0) : own.sum * exp(own.maximum - largest));
  if (lane != 0) return;
  if (arguments.finds_maximum) store(arguments.maximum, index, largest);
  const auto label = load<int64_t>(arguments.labels, index);
  const int64_t here = label == arguments.ignored ? -1 : local_of(arguments.shard, label);
  if (label != arguments.ignored && arguments.fault != nullptr && is_outside(arguments.shard, label))
    *arguments.fault = 1;
  store(arguments.terms, index, sum);
  store(arguments.terms, arguments.positions + index,
        here < 0 ? Real(0) : load<Real>(arguments.logits, first + here) - largest);
  store(arguments.terms, 2 * arguments.positions + index,
        here < 0               ? Real(0)
        : arguments.has_weight ? load<Real>(arguments.weight, here)
                               : Real(1));
}

MESHWRIGHT_DEVICE double class_weight(const LossArguments& arguments, int64_t c) {
  return arguments.has_weight ? load(arguments.weight, c) : 1;
}

// Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7: each class is wanted a little. What of a
// position's loss is all classes', which is behind the terms.
MESHWRIGHT_ROW_KERNEL(loss_smoothed, LossArguments) {
  const double maximum = load(arguments.maximum, index);
  double weights = 0, weighted = 0;
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const double weight = class_weight(arguments, c);
    weights += weight;
    if (weight != 0) weighted += weight * (load(arguments.logits, index * arguments.classes + c) - maximum);
  }
  weights = sum_of_lanes(weights);
  weighted = sum_of_lanes(weighted);
  if (lane != 0) return;
  store(arguments.smoothed, index, weights);
  store(arguments.smoothed, arguments.positions + index, weighted);
}

MESHWRIGHT_ROW_KERNEL(loss_terms, LossArguments) {
  by_type([&](auto type) { find_terms(type, arguments, index, lane); }, arguments.logits);
}

// One index for all.
MESHWRIGHT_BLOCK_KERNEL(loss_count, LossArguments) {
  double sum = 0;
  for (int64_t n = thread; n < arguments.positions; n += kThreads)
    sum += load(arguments.terms, 2 * arguments.positions + n);
  sum = sum_of_block(sum);
  if (thread == 0) store(arguments.count, index, sum);
}

MESHWRIGHT_DEVICE double loss_of(const LossArguments& arguments, int64_t position) {
  const double share = load(arguments.terms, 2 * arguments.positions + position);
  if (share == 0) return 0;
  const double logarithm = ::log(load(arguments.terms, position)),
               loss = share * (logarithm - load(arguments.terms, arguments.positions + position));
  if (arguments.smoothing == 0) return loss;
  const double all =
      load(arguments.smoothed, position) * logarithm - load(arguments.smoothed, arguments.positions + position);
  return (1 - arguments.smoothing) * loss + arguments.smoothing / static_cast<double>(arguments.classes) * all;
}

// One index for all, or, without a reduction, for each position.
MESHWRIGHT_BLOCK_KERNEL(loss_combine, LossArguments) {
  if (arguments.reduction == LossReduction::none) {
    if (thread == 0) store(arguments.result, index, loss_of(arguments, index));
    return;
  }
  double sum = 0;
  for (int64_t n = thread; n < arguments.positions; n += kThreads) sum += loss_of(arguments, n);
  sum = sum_of_block(sum);
  if (thread == 0) store(arguments.result, index, arguments.has_count ? sum / load(arguments.count, 0) : sum);
}

template <class Type>
MESHWRIGHT_DEVICE void find_gradient(Type, const LossArguments& arguments, int64_t index, int lane) {
  using Real = typename Type::Real;
  const int64_t first = index * arguments.classes;
  Real scale = load<Real>(arguments.terms, 2 * arguments.positions + index) *
               load<Real>(arguments.gradient, arguments.reduction == LossReduction::none ? index : 0);
  if (arguments.has_count && scale != 0) scale /= load<Real>(arguments.count, 0);
  const Real largest = load<Real>(arguments.maximum, index), share = scale / load<Real>(arguments.terms, index);
  const int64_t label = local_of(arguments.shard, load<int64_t>(arguments.labels, index));
  const int64_t known = first_ones(arguments.shard, arguments.classes);
  const auto find = [&](int64_t c, bool is_there) {
    const Real logit = Type::load(arguments.logits, first + c);
    Real slope = 0;
    if (scale != 0 && is_there) slope = exp(logit - largest) * share - (c == label ? scale : Real(0));
    Type::store(arguments.result, first + c, slope);
  };
  MESHWRIGHT_UNROLL_SOME
  for (int64_t c = lane; known >= 0 && c < arguments.classes; c += kLanes) find(c, c < known);
  for (int64_t c = lane; known < 0 && c < arguments.classes; c += kLanes) find(c, global_of(arguments.shard, c) >= 0);
}

// With smoothed labels: what is wanted of a class is its weight's share of all, and of the label the rest.
MESHWRIGHT_DEVICE void find_smoothed_gradient(const LossArguments& arguments, int64_t index, int lane) {
  const int64_t first = index * arguments.classes, label = load<int64_t>(arguments.labels, index);
  const double share = load(arguments.terms, 2 * arguments.positions + index), maximum = load(arguments.maximum, index),
               each = arguments.smoothing / static_cast<double>(arguments.classes), rest = 1 - arguments.smoothing,
               all = each * load(arguments.smoothed, index) + rest * share,
               probability = all / load(arguments.terms, index);
  double scale = share == 0 ? 0 : load(arguments.gradient, arguments.reduction == LossReduction::none ? index : 0);
  if (arguments.has_count && scale != 0) scale /= load(arguments.count, 0);
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const double wanted = class_weight(arguments, c) * (c == label ? each + rest : each),
                 logit = load(arguments.logits, first + c);
    store(arguments.result, first + c, scale == 0 ? 0 : scale * (::exp(logit - maximum) * probability - wanted));
  }
}

// One index a position.
MESHWRIGHT_ROW_KERNEL(loss_gradient, LossArguments) {
  if (arguments.smoothing != 0) return find_smoothed_gradient(arguments, index, lane);
  by_type([&](auto type) { find_gradient(type, arguments, index, lane); }, arguments.logits, arguments.result);
}

}  // namespace meshwright::cuda
