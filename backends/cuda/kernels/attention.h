// Scaled dot-product attention: softmax(scale·Q·Kᵀ + mask)·V, the probabilities kept in scratch, one row of them for
// each query.
#pragma once

#include "lookups.h"

namespace meshwright::cuda {

// Queries [batches, l, d], keys [key batches, s, d], values [key batches, s, e], which lie row by row; `repeats`
// batches of queries share one of keys. `probabilities` and `slopes`: a row of s numbers for each query.
struct AttentionArguments {
  int64_t rows = 0, l = 0, s = 0, d = 0, e = 0, repeats = 1;
  double scale = 1;
  bool causal = false, has_mask = false;
  View query, key, value, output, gradient, result;
  Sizes scores;  // of queries × keys, over which the mask has its strides
  View mask;
  Shard queries;  // of the positions l
  double *probabilities = nullptr, *slopes = nullptr;
};

MESHWRIGHT_DEVICE int64_t first_key(const AttentionArguments& arguments, int64_t row) {
  return row / arguments.l / arguments.repeats * arguments.s;
}

MESHWRIGHT_DEVICE double dot(const View& a, int64_t a_first, const View& b, int64_t b_first, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += load(a, a_first + i) * load(b, b_first + i);
  return sum;
}

// One index a query. Zeros where no key is allowed.
MESHWRIGHT_KERNEL(attention_probabilities, AttentionArguments) {
  double* row = arguments.probabilities + index * arguments.s;
  const int64_t reach = arguments.causal ? global_of(arguments.queries, index % arguments.l) + 1 : arguments.s;
  double highest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < arguments.s; ++j) {
    row[j] = -INFINITY;
    if (j >= reach) continue;
    row[j] = arguments.scale * dot(arguments.query, index * arguments.d, arguments.key,
                                   (first_key(arguments, index) + j) * arguments.d, arguments.d);
    if (arguments.has_mask) {
      const double mask =
          load(arguments.mask, offset_of(arguments.scores, arguments.mask.strides, index * arguments.s + j));
      if (arguments.mask.element != Element::boolean)
        row[j] += mask;
      else if (mask == 0)
        row[j] = -INFINITY;
    }
    if (row[j] > highest) highest = row[j];
  }
  for (int64_t j = 0; j < arguments.s; ++j) {
    row[j] = highest == -INFINITY ? 0 : exp(row[j] - highest);
    sum += row[j];
  }
  for (int64_t j = 0; j < arguments.s && sum > 0; ++j) row[j] /= sum;
}

// One index an element of the result.
MESHWRIGHT_KERNEL(attention_result, AttentionArguments) {
  const int64_t row = index / arguments.e;
  double sum = 0;
  for (int64_t j = 0; j < arguments.s; ++j)
    sum += arguments.probabilities[row * arguments.s + j] *
           load(arguments.value, (first_key(arguments, row) + j) * arguments.e + index % arguments.e);
  store(arguments.result, index, sum);
}

// Dao et al. 2022, FlashAttention, appendix B.2: dV = pᵀg; dP = g·Vᵀ; dS = p·(dP − Σ g·y); dQ = scale·dS·K; dK =
// scale·dSᵀ·Q. One index a query: its row of dS.
MESHWRIGHT_KERNEL(attention_slopes, AttentionArguments) {
  const double mean = dot(arguments.gradient, index * arguments.e, arguments.output, index * arguments.e, arguments.e);
  for (int64_t j = 0; j < arguments.s; ++j) {
    const int64_t at = index * arguments.s + j;
    arguments.slopes[at] =
        arguments.probabilities[at] * (dot(arguments.gradient, index * arguments.e, arguments.value,
                                           (first_key(arguments, index) + j) * arguments.e, arguments.e) -
                                       mean);
  }
}

MESHWRIGHT_KERNEL(attention_query_gradient, AttentionArguments) {
  const int64_t row = index / arguments.d;
  double sum = 0;
  for (int64_t j = 0; j < arguments.s; ++j)
    sum += arguments.slopes[row * arguments.s + j] *
           load(arguments.key, (first_key(arguments, row) + j) * arguments.d + index % arguments.d);
  store(arguments.result, index, arguments.scale * sum);
}

// Σ over the queries that share a key, of its column of `weights` times what lies at the query.
MESHWRIGHT_DEVICE double over_queries(const AttentionArguments& arguments, const double* weights, const View& of_query,
                                      int64_t width, int64_t index) {
  const int64_t key = index / width, batch = key / arguments.s, column = key % arguments.s,
                first = batch * arguments.repeats * arguments.l;
  double sum = 0;
  for (int64_t row = first; row < first + arguments.repeats * arguments.l; ++row)
    sum += weights[row * arguments.s + column] * load(of_query, row * width + index % width);
  return sum;
}

MESHWRIGHT_KERNEL(attention_key_gradient, AttentionArguments) {
  store(arguments.result, index,
        arguments.scale * over_queries(arguments, arguments.slopes, arguments.query, arguments.d, index));
}
MESHWRIGHT_KERNEL(attention_value_gradient, AttentionArguments) {
  store(arguments.result, index,
        over_queries(arguments, arguments.probabilities, arguments.gradient, arguments.e, index));
}

}  // namespace meshwright::cuda
