// Statistics of lines of numbers that no sum is (plugins/ops/statistics).
#pragma once

#include "blocks.h"

namespace meshwright::cuda {

enum class Statistic : int32_t { variance, deviation, log_sum_exp, norm, product };

// A line for each element of the result, over the dimensions that are reduced. `mean` has one, too, unless it has no
// memory.
struct StatisticArguments {
  Statistic kind = Statistic::variance;
  Sizes kept, reduced;
  int64_t count = 1;      // of a line
  double correction = 0;  // what is subtracted from it, of a variance
  double order = 2;       // of a norm
  View from;              // strides of the kept dimensions
  int64_t reduced_strides[kMaxRank] = {};
  View gradient, result, mean;  // lie row by row
};

// Each thread gets the sum over a line of a function of each.
template <class Of>
MESHWRIGHT_DEVICE double sum_of_line(const StatisticArguments& a, int64_t first, int thread, const Of& of) {
  double sum = 0;
  for (int64_t i = thread; i < a.count; i += kThreads)
    sum += of(load(a.from, first + offset_of(a.reduced, a.reduced_strides, i)));
  return kept_by_block(sum_of_block(sum));
}
template <class Of>
MESHWRIGHT_DEVICE double largest_of_line(const StatisticArguments& a, int64_t first, int thread, const Of& of) {
  double largest = -INFINITY;
  for (int64_t i = thread; i < a.count; i += kThreads) {
    const double number = of(load(a.from, first + offset_of(a.reduced, a.reduced_strides, i)));
    largest = number > largest ? number : largest;
  }
  return kept_by_block(maximum_of_block(largest));
}

// (Σ |x|^order)^(1/order); an infinite order takes the largest or the smallest, 0 counts.
MESHWRIGHT_DEVICE double norm_of_line(const StatisticArguments& a, int64_t first, int thread) {
  const double order = a.order;
  if (order == INFINITY) {
    const double largest = largest_of_line(a, first, thread, [](double x) { return fabs(x); });
    return a.count == 0 ? 0 : largest;
  }
  if (order == -INFINITY) return -largest_of_line(a, first, thread, [](double x) { return -fabs(x); });
  if (order == 0) return sum_of_line(a, first, thread, [](double x) { return x != 0 ? 1.0 : 0.0; });
  if (order == 2) return sqrt(sum_of_line(a, first, thread, [](double x) { return x * x; }));
  return pow(sum_of_line(a, first, thread, [order](double x) { return pow(fabs(x), order); }), 1 / order);
}

MESHWRIGHT_DEVICE double log_sum_exp_of_line(const StatisticArguments& a, int64_t first, int thread) {
  const double largest = largest_of_line(a, first, thread, [](double x) { return x; });
  if (fabs(largest) == INFINITY) return largest;
  return largest + ::log(sum_of_line(a, first, thread, [largest](double x) { return exp(x - largest); }));
}

// One index a line. A product is one thread's.
MESHWRIGHT_BLOCK_KERNEL(statistic, StatisticArguments) {
  const StatisticArguments& a = arguments;
  const int64_t first = offset_of(a.kept, a.from.strides, index);
  double made = 1, mean = 0;
  if (a.kind == Statistic::product) {
    for (int64_t i = 0; i < a.count && thread == 0; ++i)
      made *= load(a.from, first + offset_of(a.reduced, a.reduced_strides, i));
  } else if (a.kind == Statistic::norm) {
    made = norm_of_line(a, first, thread);
  } else if (a.kind == Statistic::log_sum_exp) {
    made = log_sum_exp_of_line(a, first, thread);
  } else {
    const double count = static_cast<double>(a.count);
    mean = sum_of_line(a, first, thread, [](double x) { return x; }) / count;
    const double squares = sum_of_line(a, first, thread, [mean](double x) { return (x - mean) * (x - mean); });
    made = squares / (count > a.correction ? count - a.correction : 0);
    if (a.kind == Statistic::deviation) made = sqrt(made);
  }
  if (thread != 0) return;
  store(a.result, index, made);
  if (a.mean.data != nullptr) store(a.mean, index, mean);
}

// One index a line: of each of its numbers the gradient times the product of all others, without a division. `result`
// has the strides of `from`'s dimensions.
struct ProductGradientArguments {
  StatisticArguments of;
  int64_t kept_strides[kMaxRank] = {}, reduced_strides[kMaxRank] = {};  // of the result
};
MESHWRIGHT_KERNEL(product_gradient, ProductGradientArguments) {
  const StatisticArguments& a = arguments.of;
  const int64_t first = offset_of(a.kept, a.from.strides, index),
                target = offset_of(a.kept, arguments.kept_strides, index);
  const double gradient = load(a.gradient, index);
  for (int64_t i = 0; i < a.count; ++i) {
    double others = gradient;
    for (int64_t j = 0; j < a.count; ++j)
      others *= j == i ? 1 : load(a.from, first + offset_of(a.reduced, a.reduced_strides, j));
    store(a.result, target + offset_of(a.reduced, arguments.reduced_strides, i), others);
  }
}

}  // namespace meshwright::cuda
