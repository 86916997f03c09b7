#include "product.h"

namespace meshwright::cuda {

namespace {

// Of a matrix of so many rows and columns; as it is stored, these are exchanged where it is transposed, and so they are
// again by the reading column by column.
ColumnLayout layout_of(const MatrixPlace& place, std::int64_t rows, std::int64_t columns) {
  const std::int64_t stored_rows = place.is_transposed ? columns : rows,
                     stored_columns = place.is_transposed ? rows : columns;
  return {static_cast<std::uint64_t>(stored_columns), static_cast<std::uint64_t>(stored_rows), place.leading,
          place.batch, place.alignment};
}

}  // namespace

std::string to_string(const ProductShape& shape) {
  const auto by = [](std::int64_t rows, std::int64_t columns) {
    return std::to_string(rows) + "×" + std::to_string(columns);
  };
  return (shape.batches > 1 ? std::to_string(shape.batches) + " of " : "") + by(shape.m, shape.k) + "·" +
         by(shape.k, shape.n) + (shape.factors == DType::float32 ? "" : " in " + std::string(name(shape.factors))) +
         (shape.activation == Activation::relu   ? " with ReLU"
          : shape.activation == Activation::gelu ? " with GELU"
                                                 : "");
}

ColumnProduct by_columns(const ProductShape& shape) {
  const ColumnLayout result = layout_of(shape.result, shape.m, shape.n);
  return {static_cast<std::int32_t>(shape.batches),
          shape.b.is_transposed,
          shape.a.is_transposed,
          layout_of(shape.b, shape.k, shape.n),
          layout_of(shape.a, shape.m, shape.k),
          shape.adds ? layout_of(shape.addend, shape.m, shape.n) : result,
          result,
          shape.bias,
          shape.factors,
          shape.made,
          shape.activation,
          shape.keeps,
          shape.keeps ? layout_of(shape.aux, shape.m, shape.n) : ColumnLayout()};
}

}  // namespace meshwright::cuda
