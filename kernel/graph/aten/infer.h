// Tables of shape inference, a group of ops in each file.
#pragma once

#include <initializer_list>
#include <utility>

#include "call.h"

namespace meshwright::aten {

using Infer = Result<Shapes> (*)(const Call& call);

// The shapes of an op with one result.
inline Result<Shapes> one(Result<Shape> shape) {
  if (!shape) return shape.error();
  return Shapes{std::move(*shape)};
}

// The names that follow "aten.", with spaces between them.
struct Inferred {
  std::string_view ops;
  Infer infer;
};
using Table = std::vector<Inferred>;

Table pointwise_table();  // and what keeps the shape of one operand
Table reduction_table();
Table view_table();
Table product_table();
Table window_table();   // convolutions, poolings, paddings, interpolation
Table joining_table();  // pieces joined and cut
Table indexing_table();
Table factory_table();
Table layer_table();  // norms, losses, attention, embeddings

}  // namespace meshwright::aten
