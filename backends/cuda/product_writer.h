// Which products a library takes: those of float32 or bfloat16 whose matrices lie row by row or column by column,
// batches at one stride.
#pragma once

#include <optional>

#include "kernels/products.h"
#include "op_writer.h"
#include "product.h"

namespace meshwright::cuda {

// The same product for a library. Batches that all read one right matrix become rows of one product where they follow
// each other. An addend that is one row for all is a bias, if `fuses_bias`. One that lies otherwise, and not as a
// matrix, has to be copied to the result first, which then is the addend; `copies_addend` says so. Nothing: no library
// takes it.
struct LibraryProduct {
  Product product;
  bool copies_addend = false;
};
std::optional<LibraryProduct> library_product(const ProductArguments& arguments, bool fuses_bias);

// The same with the bytes of workspace that it needs; nothing: no library takes it, or none has an algorithm.
Result<std::optional<LibraryProduct>> plan_product(const OpWriter& writer, const ProductArguments& arguments);

}  // namespace meshwright::cuda
