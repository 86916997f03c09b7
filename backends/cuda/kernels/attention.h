// Scaled dot-product attention: softmax(scale·Q·Kᵀ + mask)·V, the probabilities kept in scratch, one row of them for
// each query.
#pragma once

#include "dropout.h"

namespace meshwright::cuda {

// Queries [batches, l, d], keys [key batches, s, d], values [key batches, s, e], which lie row by row; `repeats`
// batches of queries share one of keys. `probabilities` and `slopes`: a row of s numbers for each query.
struct AttentionArguments {
  int64_t rows = 0, l = 0, s = 0, d = 0, e = 0, repeats = 1;
  double scale = 1;
  bool causal = false, has_mask = false;
  double dropout = 0;  // of probabilities, each drawn from the stream by its element of all scores
  uint64_t stream = 0;
  Shard kept_rows;     // of all queries, for dropout
  bool drops = false;  // what becomes of scores that are there is what dropout keeps
  View query, key, value, output, gradient, result;
  Sizes scores;  // of queries, over which the mask has its strides
  View mask;
  int64_t mask_step = 0;      // from key to key
  Shard queries;              // of the positions l
  uint8_t* unseen = nullptr;  // by row of the mask: 1 if a query sees no key
  double of_unseen = 0;       // what attention_unseen writes for such a query
  double *probabilities = nullptr, *slopes = nullptr;
  // These two where a library computes the products: rows of s floats, each of which becomes numbers of type `weighs`
  // in its place. Of half precision they take the first half of it.
  float *weights = nullptr, *weight_slopes = nullptr;
  Element weighs = Element::float32;
  int64_t first = 0;  // the query of their first row
};

MESHWRIGHT_DEVICE int64_t first_key(const AttentionArguments& arguments, int64_t row) {
  return quotient(quotient(row, arguments.l), arguments.repeats) * arguments.s;
}

MESHWRIGHT_DEVICE double dot(const View& a, int64_t a_first, const View& b, int64_t b_first, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += load(a, a_first + i) * load(b, b_first + i);
  return sum;
}

// How many keys a query may see.
MESHWRIGHT_DEVICE int64_t reach_of(const AttentionArguments& arguments, int64_t index) {
  return arguments.causal ? global_of(arguments.queries, index - quotient(index, arguments.l) * arguments.l) + 1
                          : arguments.s;
}

// The score of a query and a key, with the mask; -INFINITY: the query does not see the key.
template <class Real>
MESHWRIGHT_DEVICE Real masked(const AttentionArguments& arguments, Real score, int64_t mask, int64_t key) {
  if (!arguments.has_mask) return score;
  const Real number = load<Real>(arguments.mask, mask + key * arguments.mask_step);
  if (arguments.mask.element != Element::boolean) return score + number;
  return number != 0 ? score : -INFINITY;
}

MESHWRIGHT_DEVICE int64_t first_of_mask(const AttentionArguments& arguments, int64_t query) {
  return arguments.has_mask ? offset_of(arguments.scores, arguments.mask.strides, query) : 0;
}

// What dropout makes of a probability: 0, or 1 / (1 - dropout).
MESHWRIGHT_DEVICE double kept(const AttentionArguments& arguments, int64_t query, int64_t key) {
  if (arguments.dropout == 0) return 1;
  const int64_t element = global_of(arguments.kept_rows, query) * arguments.s + key;
  return uniform_of(arguments.stream, element) < arguments.dropout ? 0 : 1 / (1 - arguments.dropout);
}

// A row of scores, by the query that it is of, becomes its probabilities, of type `made`, in its place: zeros where no
// key is allowed. Each lane has its own elements of it. Milakov and Gimelshein 2018: the sum is kept as of the highest
// score so far.
template <class Real>
MESHWRIGHT_DEVICE void normalize(const AttentionArguments& arguments, Real* row, Element made, int64_t index,
                                 int lane) {
  const int64_t reach = reach_of(arguments, index), mask = first_of_mask(arguments, index);
  Real own = -INFINITY, sum = 0;
  for (int64_t j = lane; j < arguments.s && j < reach; j += kLanes) {
    const Real score = masked(arguments, row[j], mask, j);
    if (score > own) {
      sum = sum * exp(own - score) + 1;
      own = score;
    } else if (score != -INFINITY) {
      sum += exp(score - own);
    }
  }
  const Real highest = maximum_of_lanes(own);
  sum = sum_of_lanes(sum == 0 ? Real(0) : sum * exp(own - highest));
  const Real share = sum == 0 ? Real(0) : 1 / sum;
  // What is made of the first lanes' elements lies where others still read.
  for (int64_t first = 0; first < arguments.s; first += kLanes) {
    const int64_t j = first + lane;
    Real number = 0;
    if (j < arguments.s && j < reach && sum != 0) number = exp(masked(arguments, row[j], mask, j) - highest) * share;
    if (arguments.drops && number != 0) number *= static_cast<Real>(kept(arguments, index, j));
    meet_lanes();
    if (j < arguments.s) store(row, made, j, number);
  }
}

// The same of a row that a warp has in its registers, made of type `kMade`; without a mask.
constexpr int kInRegisters = 32;  // of each lane
template <Element kMade>
MESHWRIGHT_DEVICE void normalize_held(const AttentionArguments& arguments, float* row, int64_t index, int lane) {
  const int64_t reach = reach_of(arguments, index);
  const int count = static_cast<int>(arguments.s), end = reach < count ? static_cast<int>(reach) : count;
  float held[kInRegisters], own = -INFINITY, sum = 0;
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kInRegisters; ++i) {
    const int j = lane + i * kLanes;
    held[i] = j < end ? row[j] : -INFINITY;
  }
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kInRegisters; ++i) own = held[i] > own ? held[i] : own;
  const float highest = maximum_of_lanes(own);
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kInRegisters; ++i) {
    held[i] = held[i] == -INFINITY ? 0 : exp(held[i] - highest);
    sum += held[i];
  }
  sum = sum_of_lanes(sum);
  const float share = sum == 0 ? 0 : 1 / sum;
  meet_lanes();
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kInRegisters; ++i) {
    const int j = lane + i * kLanes;
    if (j < count) store(row, kMade, j, held[i] * share);
  }
}

// One index a query.
MESHWRIGHT_ROW_KERNEL(attention_probabilities, AttentionArguments) {
  double* row = arguments.probabilities + index * arguments.s;
  const int64_t reach = reach_of(arguments, index);
  for (int64_t j = lane; j < arguments.s && j < reach; j += kLanes)
    row[j] = arguments.scale * dot(arguments.query, index * arguments.d, arguments.key,
                                   (first_key(arguments, index) + j) * arguments.d, arguments.d);
  normalize(arguments, row, Element::float64, index, lane);
}

// The same of scores that are there.
MESHWRIGHT_ROW_KERNEL(attention_softmax, AttentionArguments) {
  float* row = arguments.weights + index * arguments.s;
  if (arguments.has_mask || arguments.drops || arguments.s > kInRegisters * kLanes)
    normalize(arguments, row, arguments.weighs, arguments.first + index, lane);
  else if (arguments.weighs == Element::bfloat16)
    normalize_held<Element::bfloat16>(arguments, row, arguments.first + index, lane);
  else
    normalize_held<Element::float32>(arguments, row, arguments.first + index, lane);
}

// A mask as numbers that a library adds to scores. Where even the highest is so large that float32 would lose the
// scores beside it, it is subtracted, of which a softmax makes the same. None is infinite: a library may scale what it
// is given, and less infinity less infinity is no number. What is below all others by so much has a probability of 0.
constexpr float kLargeBias = 1024, kLeastBias = -1e30F;

// One index a row of the mask: its row of the result, and whether a query sees no key.
MESHWRIGHT_ROW_KERNEL(attention_bias, AttentionArguments) {
  const int64_t reach = reach_of(arguments, index), mask = first_of_mask(arguments, index),
                end = reach < arguments.s ? reach : arguments.s;
  float own = -INFINITY, seen = 0;  // NaN is seen
  for (int64_t j = lane; j < end; j += kLanes) {
    const float number = masked(arguments, 0.0F, mask, j);
    own = number > own ? number : own;
    if (number != -INFINITY) seen = 1;
  }
  const float highest = maximum_of_lanes(own);
  seen = maximum_of_lanes(seen);
  const float shift = highest > kLargeBias || highest < -kLargeBias ? highest : 0;
  for (int64_t j = lane; j < arguments.s; j += kLanes) {
    const float number = j < end ? masked(arguments, 0.0F, mask, j) - shift : kLeastBias;
    store(arguments.result, index * arguments.s + j, seen == 0 ? 0 : number < kLeastBias ? kLeastBias : number);
  }
  if (lane == 0) arguments.unseen[index] = seen == 0 ? 1 : 0;
}

// One index a query: if it sees no key, its row of the result is `of_unseen`. The mask is what attention_bias made.
MESHWRIGHT_ROW_KERNEL(attention_unseen, AttentionArguments) {
  if (arguments.unseen[quotient(first_of_mask(arguments, index), arguments.s)] == 0) return;
  for (int64_t i = lane; i < arguments.e; i += kLanes)
    store(arguments.result, index * arguments.e + i, arguments.of_unseen);
}

// One index an element of the result.
MESHWRIGHT_KERNEL(attention_result, AttentionArguments) {
  const int64_t row = index / arguments.e;
  double sum = 0;
  for (int64_t j = 0; j < arguments.s; ++j)
    sum += arguments.probabilities[row * arguments.s + j] * kept(arguments, row, j) *
           load(arguments.value, (first_key(arguments, row) + j) * arguments.e + index % arguments.e);
  store(arguments.result, index, sum);
}

// Dao et al. 2022, FlashAttention, appendix B.2, with m what dropout keeps: dV = (m·p)ᵀg; dP = m·g·Vᵀ; dS = p·(dP − Σ
// g·y); dQ = scale·dS·K; dK = scale·dSᵀ·Q. One index a query: its row of dS.
MESHWRIGHT_KERNEL(attention_slopes, AttentionArguments) {
  const double mean = dot(arguments.gradient, index * arguments.e, arguments.output, index * arguments.e, arguments.e);
  for (int64_t j = 0; j < arguments.s; ++j) {
    const int64_t at = index * arguments.s + j;
    arguments.slopes[at] =
        arguments.probabilities[at] *
        (kept(arguments, index, j) * dot(arguments.gradient, index * arguments.e, arguments.value,
                                         (first_key(arguments, index) + j) * arguments.e, arguments.e) -
         mean);
  }
}

// The same of g·Vᵀ that is there. What is made of the first lanes' elements lies where others still read. Of weights
// stays what dropout keeps.
template <Element kWeighs, bool kDrops>
MESHWRIGHT_DEVICE void find_slopes(const AttentionArguments& arguments, int64_t index, int lane) {
  const int64_t query = arguments.first + index, reach = reach_of(arguments, query);
  float mean = 0;
  for (int64_t i = query * arguments.e + lane; i < (query + 1) * arguments.e; i += kLanes)
    mean += load<float>(arguments.gradient, i) * load<float>(arguments.output, i);
  mean = sum_of_lanes(mean);
  const int count = static_cast<int>(arguments.s), end = reach < count ? static_cast<int>(reach) : count;
  float* weights = arguments.weights + index * arguments.s;
  float* slopes = arguments.weight_slopes + index * arguments.s;
  for (int first = 0; first < count; first += kLanes * kInRegisters) {
    float held[kInRegisters];
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kInRegisters; ++i) {
      const int j = first + lane + i * kLanes;
      const float weight = j < end ? load<float>(weights, kWeighs, j) : 0;
      const float share = kDrops && j < end ? static_cast<float>(kept(arguments, query, j)) : 1;
      held[i] = j < end ? weight * (share * slopes[j] - mean) : 0;
      if (kDrops && j < end) store(weights, kWeighs, j, weight * share);
    }
    meet_lanes();
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kInRegisters; ++i) {
      const int j = first + lane + i * kLanes;
      if (j < count) store(slopes, kWeighs, j, held[i]);
    }
    meet_lanes();
  }
}

MESHWRIGHT_ROW_KERNEL(attention_softmax_gradient, AttentionArguments) {
  const bool drops = arguments.dropout != 0;
  if (arguments.weighs == Element::bfloat16)
    drops ? find_slopes<Element::bfloat16, true>(arguments, index, lane)
          : find_slopes<Element::bfloat16, false>(arguments, index, lane);
  else
    drops ? find_slopes<Element::float32, true>(arguments, index, lane)
          : find_slopes<Element::float32, false>(arguments, index, lane);
}

MESHWRIGHT_KERNEL(attention_query_gradient, AttentionArguments) {
  const int64_t row = index / arguments.d;
  double sum = 0;
  for (int64_t j = 0; j < arguments.s; ++j)
    sum += arguments.slopes[row * arguments.s + j] *
           load(arguments.key, (first_key(arguments, row) + j) * arguments.d + index % arguments.d);
  store(arguments.result, index, arguments.scale * sum);
}

// Σ over the queries that share a key, of its column of `weights`, of which dropout keeps some, times what lies at the
// query.
template <bool kDrops>
MESHWRIGHT_DEVICE double over_queries(const AttentionArguments& arguments, const double* weights, const View& of_query,
                                      int64_t width, int64_t index) {
  const int64_t key = index / width, batch = key / arguments.s, column = key % arguments.s,
                first = batch * arguments.repeats * arguments.l;
  double sum = 0;
  for (int64_t row = first; row < first + arguments.repeats * arguments.l; ++row)
    sum += weights[row * arguments.s + column] * (kDrops ? kept(arguments, row, column) : 1) *
           load(of_query, row * width + index % width);
  return sum;
}

MESHWRIGHT_KERNEL(attention_key_gradient, AttentionArguments) {
  store(arguments.result, index,
        arguments.scale * over_queries<false>(arguments, arguments.slopes, arguments.query, arguments.d, index));
}
MESHWRIGHT_KERNEL(attention_value_gradient, AttentionArguments) {
  store(arguments.result, index,
        over_queries<true>(arguments, arguments.probabilities, arguments.gradient, arguments.e, index));
}

}  // namespace meshwright::cuda
