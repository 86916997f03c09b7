// Activations that a library applies to what a product adds up, before it is written.
#pragma once

#include <optional>

#include "driver.h"

namespace meshwright::cuda {

// The product and the chain directly behind it, which is nothing but an activation of its result, as one product.
// `keeps`: the product's result is wanted too. Nothing: they are none, or cuBLASLt has no such product: its GELU is the
// one with tanh, and of a ReLU's operand it keeps the signs alone.
//
// The activation is of the float32 sum, and not of the sum as the result's type rounds it: in bfloat16 GELU's result
// differs from the chain's by that rounding.
std::optional<Product> with_activation(const Product& product, const Launch& chain, bool keeps);

// Whether it writes what it reads, or one thing twice: the activation's result may lie where an operand of the product
// lay, which was freed between both.
bool overwrites_itself(const Product& product);

}  // namespace meshwright::cuda
