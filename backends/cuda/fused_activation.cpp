#include "fused_activation.h"

#include "chains.h"
#include "cublaslt.h"
#include "host_product.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

Activation activation_of(Function function) {
  return function == Function::relu        ? Activation::relu
         : function == Function::tanh_gelu ? Activation::gelu
                                           : Activation::none;
}

// Row by row without gaps, as elements of chains lie.
bool has_no_gaps(const ProductShape& shape) {
  return shape.result.leading == shape.n && (shape.batches == 1 || shape.result.batch == shape.m * shape.n);
}

bool can_be_aux(const MatrixPlace& place) {
  return place.leading % cublaslt::kAuxMultiple == 0 && place.batch % cublaslt::kAuxMultiple == 0 &&
         place.alignment >= cublaslt::kAuxAlignment;
}

}  // namespace

std::optional<Product> with_activation(const Product& product, const Launch& launch, bool keeps) {
  const ProductShape& shape = product.shape;
  if (launch.kernel != KernelId::chain || shape.activation != Activation::none) return std::nullopt;
  const ChainArguments chain = arguments_of(launch);
  const ChainLink& link = chain.link[0];
  const Activation activation = activation_of(link.function);
  const auto made = static_cast<Element>(shape.made);
  if (chain.links != 1 || activation == Activation::none || link.operand[0] != product.result ||
      link.of_operand[0] != made || link.of_result != made || !has_no_gaps(shape) ||
      chain.elements != shape.batches * shape.m * shape.n)
    return std::nullopt;
  if (keeps && (activation != Activation::gelu || !can_be_aux(shape.result))) return std::nullopt;
  Product fused = product;
  fused.shape.activation = activation;
  fused.result = static_cast<std::byte*>(link.result);
  fused.shape.result.alignment = alignment_of(link.result);
  if (!shape.adds) {
    fused.addend = fused.result;
    fused.shape.addend = fused.shape.result;
  }
  if (keeps) {
    fused.shape.keeps = true;
    fused.aux = product.result;
    fused.shape.aux = shape.result;
  }
  return fused;
}

bool overwrites_itself(const Product& product) {
  const Launch launch = launch_of(product);
  for (std::size_t i = 0; i < launch.writes.size(); ++i) {
    const std::vector<Range> written{launch.writes[i]};
    if (overlap(written, launch.reads) ||
        overlap(written, {launch.writes.begin(), launch.writes.begin() + static_cast<std::ptrdiff_t>(i)}))
      return true;
  }
  return false;
}

}  // namespace meshwright::cuda
