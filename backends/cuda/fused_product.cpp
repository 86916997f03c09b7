#include "fused_product.h"

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

// The only link of the chain; nothing: it has several, or other elements than the product's result.
std::optional<ChainLink> link_behind(const ProductShape& shape, const Launch& launch) {
  if (launch.kernel != KernelId::chain || shape.activation != Activation::none || !has_no_gaps(shape))
    return std::nullopt;
  const ChainArguments chain = arguments_of(launch);
  if (chain.links != 1 || chain.strided > 0 || chain.elements != shape.batches * shape.m * shape.n) return std::nullopt;
  return chain.link[0].of_result == static_cast<Element>(shape.made) ? std::optional(chain.link[0]) : std::nullopt;
}

// With its result where the link's is. If it adds nothing, the addend is where the result is.
Product moved_to_result(const Product& product, const ChainLink& link) {
  Product moved = product;
  moved.result = static_cast<std::byte*>(link.result);
  moved.shape.result.alignment = alignment_of(link.result);
  if (!product.shape.adds) {
    moved.addend = moved.result;
    moved.shape.addend = moved.shape.result;
  }
  return moved;
}

}  // namespace

std::optional<Product> with_activation(const Product& product, const Launch& launch, bool keeps) {
  const ProductShape& shape = product.shape;
  const std::optional<ChainLink> link = link_behind(shape, launch);
  if (!link) return std::nullopt;
  const Activation activation = activation_of(link->function);
  if (activation == Activation::none || link->operand[0] != product.result || link->of_operand[0] != link->of_result)
    return std::nullopt;
  if (keeps && (activation != Activation::gelu || !can_be_aux(shape.result))) return std::nullopt;
  Product fused = moved_to_result(product, *link);
  fused.shape.activation = activation;
  if (keeps) {
    fused.shape.keeps = true;
    fused.aux = product.result;
    fused.shape.aux = shape.result;
  }
  return fused;
}

std::optional<Product> with_addend(const Product& product, const Launch& launch) {
  const std::optional<ChainLink> link = link_behind(product.shape, launch);
  if (!link || product.shape.adds || link->function != Function::add || link->number != 1) return std::nullopt;
  const int other = link->operand[0] == product.result ? 1 : 0;
  if (link->operand[1 - other] != product.result || link->operand[other] == product.result) return std::nullopt;
  if (link->of_operand[0] != link->of_result || link->of_operand[1] != link->of_result) return std::nullopt;
  Product fused = moved_to_result(product, *link);
  fused.shape.adds = true;
  fused.beta = 1;
  fused.addend = static_cast<const std::byte*>(link->operand[other]);
  fused.shape.addend.alignment = alignment_of(fused.addend);
  return fused;
}

bool overwrites_itself(const Product& product) {
  Product others = product;
  const ProductShape& shape = product.shape;
  // Each number of an addend is read before the number in its place is written.
  if (shape.adds && !shape.keeps && product.addend == product.result && shape.addend.leading == shape.result.leading &&
      shape.addend.batch == shape.result.batch)
    others.shape.adds = false;
  const Launch launch = launch_of(others);
  for (std::size_t i = 0; i < launch.writes.size(); ++i) {
    const std::vector<Range> written{launch.writes[i]};
    if (overlap(written, launch.reads) ||
        overlap(written, {launch.writes.begin(), launch.writes.begin() + static_cast<std::ptrdiff_t>(i)}))
      return true;
  }
  return false;
}

}  // namespace meshwright::cuda
