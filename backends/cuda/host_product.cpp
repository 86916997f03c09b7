#include "host_product.h"

#include <cstring>

#include "kernels/products.h"

namespace meshwright::cuda {

namespace {

View view_of(const std::byte* data, DType dtype, const MatrixPlace& place) {
  View view;
  view.element = static_cast<Element>(dtype);
  view.data = const_cast<std::byte*>(data);
  view.strides[0] = place.batch;
  view.strides[ProductArguments::kRow] = place.is_transposed ? 1 : place.leading;
  view.strides[ProductArguments::kColumn] = place.is_transposed ? place.leading : 1;
  return view;
}

Function kernel_function_of(Activation activation) {
  return activation == Activation::relu   ? Function::relu
         : activation == Activation::gelu ? Function::tanh_gelu
                                          : Function::identity;
}

// From the first element of the first batch to the last one of the last.
Range range_of(const View& view, std::int64_t batches, std::int64_t rows, std::int64_t columns) {
  const std::int64_t last = (batches - 1) * view.strides[0] + (rows - 1) * view.strides[ProductArguments::kRow] +
                            (columns - 1) * view.strides[ProductArguments::kColumn];
  return {static_cast<const std::byte*>(view.data),
          static_cast<std::size_t>((last + 1) * size_bytes(static_cast<DType>(view.element)))};
}

}  // namespace

Launch launch_of(const Product& product) {
  const ProductShape& shape = product.shape;
  ProductArguments arguments;
  arguments.batch.rank = 1;
  arguments.batch.of[0] = shape.batches;
  arguments.m = shape.m;
  arguments.n = shape.n;
  arguments.k = shape.k;
  arguments.a = view_of(product.a, shape.factors, shape.a);
  arguments.b = view_of(product.b, shape.factors, shape.b);
  arguments.result = view_of(product.result, shape.made, shape.result);
  arguments.alpha = product.alpha;
  arguments.beta = product.beta;
  Launch launch{
      KernelId::product,
      std::vector<std::byte>(sizeof arguments),
      shape.batches * shape.m * shape.n,
      {range_of(arguments.a, shape.batches, shape.m, shape.k), range_of(arguments.b, shape.batches, shape.k, shape.n)},
      {range_of(arguments.result, shape.batches, shape.m, shape.n)}};
  if (shape.adds) {
    arguments.adds = true;
    arguments.addend = view_of(product.addend, shape.made, shape.addend);
    launch.reads.push_back(range_of(arguments.addend, shape.batches, shape.m, shape.n));
  }
  if (shape.bias != 0) {
    arguments.bias = view_of(product.bias, shape.made, {false, 0, 0, shape.bias});
    launch.reads.push_back(range_of(arguments.bias, 1, 1, shape.n));
  }
  arguments.activation = kernel_function_of(shape.activation);
  if (shape.keeps) {
    arguments.keeps = true;
    arguments.aux = view_of(product.aux, shape.made, shape.aux);
    launch.writes.push_back(range_of(arguments.aux, shape.batches, shape.m, shape.n));
  }
  std::memcpy(launch.arguments.data(), &arguments, sizeof arguments);
  return launch;
}

}  // namespace meshwright::cuda
