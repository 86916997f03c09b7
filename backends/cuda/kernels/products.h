// Products of matrices, any strides, one thread for each element of the result.
#pragma once

#include "pointwise.h"

namespace meshwright::cuda {

// aux = alpha · a·b + beta · addend + bias, and result = the activation of that sum, before it is rounded. Strides of
// batches, then those of a matrix' rows and columns in the two last places.
struct ProductArguments {
  static constexpr int kRow = kMaxRank - 2, kColumn = kMaxRank - 1;
  Sizes batch;
  int64_t m = 1, n = 1, k = 1;
  View a, b, addend, result;
  View bias;  // a number for each column, one after the other; without memory: there is none
  bool adds = false;
  double alpha = 1, beta = 1;
  Function activation = Function::identity;  // or relu, tanh_gelu
  bool keeps = false;                        // there is an aux
  View aux;
};

MESHWRIGHT_DEVICE int64_t at_of(const ProductArguments& arguments, const View& view, int64_t batch, int64_t row,
                                int64_t column) {
  return offset_of(arguments.batch, view.strides, batch) + row * view.strides[ProductArguments::kRow] +
         column * view.strides[ProductArguments::kColumn];
}

// By constants, so that a GPU's kernel has no other function in it.
MESHWRIGHT_DEVICE double activated(Function activation, double sum) {
  if (activation == Function::relu) return value_of(Function::relu, &sum, 0.0);
  return activation == Function::tanh_gelu ? value_of(Function::tanh_gelu, &sum, 0.0) : sum;
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
  if (arguments.bias.data != nullptr) sum += load(arguments.bias, column);
  if (arguments.keeps) store(arguments.aux, at_of(arguments, arguments.aux, batch, row, column), sum);
  store(arguments.result, at_of(arguments, arguments.result, batch, row, column), activated(arguments.activation, sum));
}

}  // namespace meshwright::cuda
