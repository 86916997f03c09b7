#include "product_writer.h"

#include <algorithm>
#include <limits>

namespace meshwright::cuda {

namespace {

// Rows without gaps that do not overlap; nothing: they lie otherwise. Of a single row the stride says nothing.
std::optional<std::int64_t> leading_of(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                                       std::int64_t column_stride) {
  if (columns > 1 && column_stride != 1) return std::nullopt;
  if (rows == 1) return columns;
  return row_stride >= columns ? std::optional(row_stride) : std::nullopt;
}

std::optional<MatrixPlace> place_of(const View& view, std::int64_t rows, std::int64_t columns, std::int64_t batch) {
  const std::int64_t row = view.strides[ProductArguments::kRow], column = view.strides[ProductArguments::kColumn];
  if (const auto leading = leading_of(rows, columns, row, column))
    return MatrixPlace{false, *leading, batch, alignment_of(view.data)};
  if (const auto leading = leading_of(columns, rows, column, row))
    return MatrixPlace{true, *leading, batch, alignment_of(view.data)};
  return std::nullopt;
}

// The addend of batches that share a matrix is read anew for each: a library may not do so.
std::optional<MatrixPlace> addend_of(const ProductArguments& arguments, std::int64_t batches, std::int64_t batch) {
  if (batches > 1 && batch == 0) return std::nullopt;
  const auto place = place_of(arguments.addend, arguments.m, arguments.n, batch);
  return place && !place->is_transposed ? place : std::nullopt;
}

// A row that is added to each of several, as it is.
bool is_bias(const ProductArguments& arguments) {
  const View& addend = arguments.addend;
  return arguments.beta == 1 && arguments.m > 1 && arguments.n > 1 && addend.strides[ProductArguments::kRow] == 0 &&
         addend.strides[ProductArguments::kColumn] == 1;
}

// Rows of one batch go on in the next.
bool goes_on(const View& view, std::int64_t m) { return view.strides[0] == m * view.strides[ProductArguments::kRow]; }

}  // namespace

std::optional<LibraryProduct> library_product(const ProductArguments& given, bool fuses_bias) {
  ProductArguments arguments = given;
  const Element factors = arguments.a.element, result_element = arguments.result.element;
  if (!is_single(factors) || arguments.b.element != factors) return std::nullopt;
  if (result_element != factors && result_element != Element::float32) return std::nullopt;
  if (arguments.adds && arguments.addend.element != result_element) return std::nullopt;
  if (arguments.batch.rank > 1) return std::nullopt;
  std::int64_t batches = arguments.batch.rank == 1 ? arguments.batch.of[0] : 1;
  if (batches > 1 && arguments.b.strides[0] == 0 && goes_on(arguments.a, arguments.m) &&
      goes_on(arguments.result, arguments.m) && (!arguments.adds || goes_on(arguments.addend, arguments.m))) {
    arguments.m *= batches;
    batches = 1;
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (std::min({arguments.m, arguments.n, arguments.k, batches}) < 1 ||
      std::max({arguments.m, arguments.n, arguments.k, batches}) > kMost)
    return std::nullopt;
  const auto batch_of = [&](const View& view) { return batches > 1 ? view.strides[0] : 0; };
  const auto a = place_of(arguments.a, arguments.m, arguments.k, batch_of(arguments.a)),
             b = place_of(arguments.b, arguments.k, arguments.n, batch_of(arguments.b)),
             result = place_of(arguments.result, arguments.m, arguments.n, batch_of(arguments.result));
  if (!a || !b || !result || result->is_transposed) return std::nullopt;
  LibraryProduct made;
  made.product.shape = {arguments.m, arguments.n, arguments.k, batches, *a, *b, *result, *result, arguments.adds};
  made.product.shape.factors = static_cast<DType>(factors);
  made.product.shape.made = static_cast<DType>(result_element);
  made.product.a = static_cast<const std::byte*>(arguments.a.data);
  made.product.b = static_cast<const std::byte*>(arguments.b.data);
  made.product.result = static_cast<std::byte*>(arguments.result.data);
  made.product.addend = made.product.result;
  made.product.alpha = static_cast<float>(arguments.alpha);
  made.product.beta = static_cast<float>(arguments.beta);
  if (!arguments.adds) return made;
  if (fuses_bias && batches == 1 && is_bias(arguments)) {
    made.product.shape.adds = false;
    made.product.shape.bias = alignment_of(arguments.addend.data);
    made.product.bias = static_cast<const std::byte*>(arguments.addend.data);
    return made;
  }
  const auto addend = addend_of(arguments, batches, batch_of(arguments.addend));
  made.copies_addend = !addend;
  if (addend) {
    made.product.shape.addend = *addend;
    made.product.addend = static_cast<const std::byte*>(arguments.addend.data);
  }
  return made;
}

Result<std::optional<LibraryProduct>> plan_product(const OpWriter& writer, const ProductArguments& arguments) {
  for (const bool fuses_bias : {true, false}) {
    std::optional<LibraryProduct> made;
    if (writer.plan_product) made = library_product(arguments, fuses_bias);
    if (!made) return made;
    const Result<std::optional<std::size_t>> workspace = writer.plan_product(made->product.shape);
    if (!workspace) return workspace.error();
    if (*workspace) {
      made->product.workspace_bytes = **workspace;
      return made;
    }
    if (made->product.shape.bias == 0) break;
  }
  return std::optional<LibraryProduct>();
}

}  // namespace meshwright::cuda
