// Products of matrices, any strides, one thread for each element of the result.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// result = alpha · a·b + beta · addend. Strides of batches, then those of a matrix' rows and columns in the two last
// places.
struct ProductArguments {
  static constexpr int kRow = kMaxRank - 2, kColumn = kMaxRank - 1;
  Sizes batch;
  int64_t m = 1, n = 1, k = 1;
  View a, b, addend, result;
  bool adds = false;
  double alpha = 1, beta = 1;
};

MESHWRIGHT_DEVICE int64_t at_of(const ProductArguments& arguments, const View& view, int64_t batch, int64_t row,
                                int64_t column) {
  return offset_of(arguments.batch, view.strides, batch) + row * view.strides[ProductArguments::kRow] +
         column * view.strides[ProductArguments::kColumn];
}

MESHWRIGHT_KERNEL(product, ProductArguments) {
  const int64_t column = index % arguments.n, row = index / arguments.n % arguments.m,
                batch = index / arguments.n / arguments.m;
  const int64_t a = at_of(arguments, arguments.a, batch, row, 0), b = at_of(arguments, arguments.b, batch, 0, column);
  double sum = 0;
  for (int64_t p = 0; p < arguments.k; ++p) {
    sum += load(arguments.a, a + p * arguments.a.strides[ProductArguments::kColumn]) *
           load(arguments.b, b + p * arguments.b.strides[ProductArguments::kRow]);
  }
  sum *= arguments.alpha;
  if (arguments.adds)
    sum += arguments.beta * load(arguments.addend, at_of(arguments, arguments.addend, batch, row, column));
  store(arguments.result, at_of(arguments, arguments.result, batch, row, column), sum);
}

}  // namespace meshwright::cuda
