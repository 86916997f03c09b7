// What a product takes over from the chain behind it: an activation of what it adds up, or what is added to that.
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

// The same of a chain that is nothing but the sum of the product's result, which nobody else reads, and of something
// that lies as it does.
std::optional<Product> with_addend(const Product& product, const Launch& chain);

// Whether it writes what it reads, but for an addend in its result's place, or one thing twice: what stands behind a
// product may be where an operand of the product was, which was freed between both.
bool overwrites_itself(const Product& product);

}  // namespace meshwright::cuda
