// Distances of pairs of rows (plugins/ops/cdist), and cosines between vectors (plugins/ops/cosine_similarity).
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Of all first rows with all second ones, batch by batch; `pairs`: of the first rows' pairs i < j, in their order,
// where `m` and `n` are both their number. All lie row by row.
struct DistanceArguments {
  bool pairs = false;
  int64_t m = 0, n = 0, extent = 0;
  double p = 2;
  View first, second, gradient, distances, result;
};

// How many pairs stand before those of row i.
MESHWRIGHT_DEVICE int64_t pairs_before(int64_t n, int64_t i) { return i * (2 * n - i - 1) / 2; }
MESHWRIGHT_DEVICE int64_t pair_at(int64_t n, int64_t i, int64_t j) {
  return i < j ? pairs_before(n, i) + j - i - 1 : pairs_before(n, j) + i - j - 1;
}

// Where the two rows of a distance begin.
struct RowPair {
  int64_t first = 0, second = 0;
};
MESHWRIGHT_DEVICE RowPair rows_of_distance(const DistanceArguments& a, int64_t index) {
  if (!a.pairs) {
    const int64_t row = quotient(index, a.n), batch = quotient(row, a.m);
    return {row * a.extent, (batch * a.n + index - row * a.n) * a.extent};
  }
  int64_t i = 0, behind = a.n;  // the last row whose pairs do not begin behind it
  while (behind - i > 1) {
    const int64_t middle = (i + behind) / 2;
    (pairs_before(a.n, middle) <= index ? i : behind) = middle;
  }
  return {i * a.extent, (index - pairs_before(a.n, i) + i + 1) * a.extent};
}

MESHWRIGHT_DEVICE double raised(double size, double p) {
  if (p == 2) return size * size;
  if (p == 1) return size;
  return p == 0 ? (size != 0 ? 1 : 0) : pow(size, p);
}
MESHWRIGHT_DEVICE double root(double sum, double p) {
  if (p == 2) return sqrt(sum);
  return p == 0 || p == 1 ? sum : pow(sum, 1 / p);
}

// Of each `step`th coordinate from `begin` on: of the sum, or of an infinite order the largest.
MESHWRIGHT_DEVICE double distance_part(const DistanceArguments& a, int64_t index, int64_t begin, int64_t step) {
  const RowPair rows = rows_of_distance(a, index);
  double made = 0;
  for (int64_t k = begin; k < a.extent; k += step) {
    const double size = fabs(load(a.first, rows.first + k) - load(a.second, rows.second + k));
    if (a.p == INFINITY)
      made = size > made ? size : made;
    else
      made += raised(size, a.p);
  }
  return made;
}

// One index a distance, of rows that are short.
MESHWRIGHT_KERNEL(distance, DistanceArguments) {
  const double made = distance_part(arguments, index, 0, 1);
  store(arguments.result, index, arguments.p == INFINITY ? made : root(made, arguments.p));
}
MESHWRIGHT_ROW_KERNEL(distance_of_long, DistanceArguments) {
  const double own = distance_part(arguments, index, lane, kLanes);
  const double made = arguments.p == INFINITY ? maximum_of_lanes(own) : root(sum_of_lanes(own), arguments.p);
  if (lane == 0) store(arguments.result, index, made);
}

// Of a distance by one coordinate of the first row; 0 where there is no distance.
MESHWRIGHT_DEVICE double distance_slope(double difference, double distance, double p) {
  const double sign = difference > 0 ? 1 : difference < 0 ? -1 : 0;
  if (p == 0 || distance == 0) return 0;
  if (p == 1) return sign;
  if (p == 2) return difference / distance;
  if (p == INFINITY) return fabs(difference) == distance ? sign : 0;
  return sign * pow(fabs(difference) / distance, p - 1);
}

// One index a coordinate of a first row: neighbours read neighbouring coordinates.
MESHWRIGHT_KERNEL(distance_gradient, DistanceArguments) {
  const DistanceArguments& a = arguments;
  const int64_t row = quotient(index, a.extent), k = index - row * a.extent,
                others = a.pairs ? 0 : quotient(row, a.m) * a.n;
  const double own = load(a.first, index);
  double sum = 0;
  for (int64_t j = 0; j < a.n; ++j) {
    if (a.pairs && j == row) continue;
    const int64_t at = a.pairs ? pair_at(a.n, row, j) : row * a.n + j;
    const double difference = own - load(a.second, (others + j) * a.extent + k);
    sum += load(a.gradient, at) * distance_slope(difference, load(a.distances, at), a.p);
  }
  store(a.result, index, sum);
}

// Of two vectors for each element of the result, along one dimension. A norm below `least` counts as it.
struct CosineArguments {
  Sizes kept;
  int64_t extent = 1, first_stride = 0, second_stride = 0;  // along the dimension
  double least = 1e-8;
  View first, second;  // strides of the kept dimensions
  View result;
};

MESHWRIGHT_ROW_KERNEL(cosine, CosineArguments) {
  const CosineArguments& a = arguments;
  const int64_t first = offset_of(a.kept, a.first.strides, index), second = offset_of(a.kept, a.second.strides, index);
  double product = 0, of_first = 0, of_second = 0;
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const double x = load(a.first, first + i * a.first_stride), y = load(a.second, second + i * a.second_stride);
    product += x * y;
    of_first += x * x;
    of_second += y * y;
  }
  product = sum_of_lanes(product);
  of_first = sqrt(sum_of_lanes(of_first));
  of_second = sqrt(sum_of_lanes(of_second));
  if (lane != 0) return;
  const double norms = (of_first < a.least ? a.least : of_first) * (of_second < a.least ? a.least : of_second);
  store(a.result, index, product / norms);
}

}  // namespace meshwright::cuda
