// Cross entropy of logits n × c and labels, or probabilities n × c, in steps, since other ranks may have some of the
// classes (plugins/ops/loss/loss.h).
#pragma once

#include "blocks.h"
#include "chains.h"
#include "lookups.h"

namespace meshwright::cuda {

enum class LossReduction : int32_t { none, mean, sum };

// All lie row by row. `terms`, 3 × n: Σ exp(x − maximum); x − maximum of the label; the label's weight, 0 if it is
// ignored.
struct LossArguments {
  int64_t positions = 0, classes = 0, ignored = -100;
  LossReduction reduction = LossReduction::mean;
  bool has_count = false, has_weight = false;
  bool has_probabilities = false;  // in the place of labels, of whole rows of classes alone
  bool finds_maximum = false;      // with the terms, where no other rank has classes
  double smoothing = 0;            // of labels, of whole rows of classes alone
  View logits, labels, maximum, terms, count, weight, gradient, result;
  View wanted;               // 2 × n: Σ of what is wanted of all classes; of this times x − maximum
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

// How many of a row's first classes a warp takes in pieces of 16 bytes, of logits or of their gradient.
template <class Type>
MESHWRIGHT_DEVICE int64_t classes_in_pieces(const LossArguments& arguments, const View& view, int64_t known) {
  if constexpr (requires { Type::element; }) {
    const bool fits = arguments.classes % kTogether == 0 && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
    return fits && known > 0 ? known - known % kTogether : 0;
  }
  return 0;
}

template <class Type>
MESHWRIGHT_DEVICE void find_terms(Type, const LossArguments& arguments, int64_t index, int lane) {
  using Real = typename Type::Real;
  const int64_t first = index * arguments.classes, known = first_ones(arguments.shard, arguments.classes);
  LossSum<Real> own{arguments.finds_maximum ? Real(-INFINITY) : load<Real>(arguments.maximum, index)};
  const int64_t in_pieces = classes_in_pieces<Type>(arguments, arguments.logits, known);
  if constexpr (requires { Type::element; }) {
    MESHWRIGHT_UNROLL_SOME
    for (int64_t c = lane * kTogether; c < in_pieces; c += kLanes * kTogether) {
      float some[kTogether];
      load_together(arguments.logits.data, Type::element, (first + c) / kTogether, kTogether, some);
      own.add(some, arguments.finds_maximum);
    }
  }
  constexpr int kSome = 8;  // that are read together
  int64_t c = in_pieces + lane;
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
  store(arguments.terms, index, sum);
  if (arguments.has_probabilities) {
    store(arguments.terms, arguments.positions + index, Real(0));
    store(arguments.terms, 2 * arguments.positions + index, Real(1));
    return;
  }
  const auto label = load<int64_t>(arguments.labels, index);
  const int64_t here = label == arguments.ignored ? -1 : local_of(arguments.shard, label);
  if (label != arguments.ignored && arguments.fault != nullptr && is_outside(arguments.shard, label))
    *arguments.fault = 1;
  store(arguments.terms, arguments.positions + index,
        here < 0 ? Real(0) : load<Real>(arguments.logits, first + here) - largest);
  store(arguments.terms, 2 * arguments.positions + index,
        here < 0               ? Real(0)
        : arguments.has_weight ? load<Real>(arguments.weight, here)
                               : Real(1));
}

// Of a class, whatever the label is: its probability, or its share of what is smoothed (Szegedy et al. 2016,
// "Rethinking the Inception Architecture", section 7), times its weight. What is wanted of a label itself is in the
// terms.
template <class Real>
MESHWRIGHT_DEVICE Real wanted_of(const LossArguments& a, int64_t position, int64_t c) {
  Real wanted = static_cast<Real>(a.smoothing) / static_cast<Real>(a.classes);
  if (a.has_probabilities)
    wanted += static_cast<Real>(1 - a.smoothing) * load<Real>(a.labels, position * a.classes + c);
  return a.has_weight ? wanted * load<Real>(a.weight, c) : wanted;
}

template <class Type>
MESHWRIGHT_DEVICE void find_wanted(Type, const LossArguments& arguments, int64_t index, int lane) {
  using Real = typename Type::Real;
  const Real maximum = load<Real>(arguments.maximum, index);
  Real all = 0, times = 0;
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const Real wanted = wanted_of<Real>(arguments, index, c);
    all += wanted;
    if (wanted != 0) times += wanted * (Type::load(arguments.logits, index * arguments.classes + c) - maximum);
  }
  all = sum_of_lanes(all);
  times = sum_of_lanes(times);
  if (lane != 0) return;
  store(arguments.wanted, index, all);
  store(arguments.wanted, arguments.positions + index, times);
}

// One index a position, of smoothed labels and of probabilities; behind the terms.
MESHWRIGHT_ROW_KERNEL(loss_wanted, LossArguments) {
  by_type([&](auto type) { find_wanted(type, arguments, index, lane); }, arguments.logits);
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
  if (arguments.wanted.data == nullptr) return loss;
  const double all =
      load(arguments.wanted, position) * logarithm - load(arguments.wanted, arguments.positions + position);
  return arguments.has_probabilities ? all : (1 - arguments.smoothing) * loss + all;
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
  const auto slope_of = [&](int64_t c, Real logit) {
    return scale == 0 ? Real(0) : exp(logit - largest) * share - (c == label ? scale : Real(0));
  };
  const auto find = [&](int64_t c, bool is_there) {
    Type::store(arguments.result, first + c, is_there ? slope_of(c, Type::load(arguments.logits, first + c)) : Real(0));
  };
  const int64_t in_pieces = classes_in_pieces<Type>(arguments, arguments.logits, known) == 0
                                ? 0
                                : classes_in_pieces<Type>(arguments, arguments.result, known);
  if constexpr (requires { Type::element; }) {
    MESHWRIGHT_UNROLL_SOME
    for (int64_t c = lane * kTogether; c < in_pieces; c += kLanes * kTogether) {
      float some[kTogether];
      load_together(arguments.logits.data, Type::element, (first + c) / kTogether, kTogether, some);
      MESHWRIGHT_UNROLL
      for (int i = 0; i < kTogether; ++i) some[i] = slope_of(c + i, some[i]);
      round_together(Type::element, some);
      store_together(arguments.result.data, Type::element, (first + c) / kTogether, kTogether, some);
    }
  }
  MESHWRIGHT_UNROLL_SOME
  for (int64_t c = in_pieces + lane; known >= 0 && c < arguments.classes; c += kLanes) find(c, c < known);
  for (int64_t c = lane; known < 0 && c < arguments.classes; c += kLanes) find(c, global_of(arguments.shard, c) >= 0);
}

// The same where something is wanted of all classes.
template <class Type>
MESHWRIGHT_DEVICE void find_gradient_of_wanted(Type, const LossArguments& arguments, int64_t index, int lane) {
  using Real = typename Type::Real;
  const Real share = load<Real>(arguments.terms, 2 * arguments.positions + index),
             maximum = load<Real>(arguments.maximum, index),
             of_label = arguments.has_probabilities ? Real(0) : static_cast<Real>(1 - arguments.smoothing) * share,
             probability = (load<Real>(arguments.wanted, index) + of_label) / load<Real>(arguments.terms, index);
  const int64_t first = index * arguments.classes,
                label = arguments.has_probabilities ? -1 : load<int64_t>(arguments.labels, index);
  Real scale = share == 0 ? 0 : load<Real>(arguments.gradient, arguments.reduction == LossReduction::none ? index : 0);
  if (arguments.has_count && scale != 0) scale /= load<Real>(arguments.count, 0);
  for (int64_t c = lane; c < arguments.classes; c += kLanes) {
    const Real wanted = wanted_of<Real>(arguments, index, c) + (c == label ? of_label : Real(0)),
               slope = exp(Type::load(arguments.logits, first + c) - maximum) * probability - wanted;
    Type::store(arguments.result, first + c, scale == 0 ? Real(0) : scale * slope);
  }
}

// One index a position.
MESHWRIGHT_ROW_KERNEL(loss_gradient, LossArguments) {
  const auto find = [&](auto type) {
    if (arguments.wanted.data != nullptr)
      find_gradient_of_wanted(type, arguments, index, lane);
    else
      find_gradient(type, arguments, index, lane);
  };
  by_type(find, arguments.logits, arguments.result);
}

}  // namespace meshwright::cuda
