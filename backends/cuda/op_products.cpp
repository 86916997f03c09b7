// Products of matrices: by the library where it takes them, else by a kernel.
#include <optional>
#include <utility>

#include "kernels/products.h"
#include "op_writer.h"
#include "product_writer.h"

namespace meshwright::cuda {

namespace {

// A tensor as the kernel has it: strides of batches, rows, columns.
Result<View> matrix_view(const Seen& tensor, std::span<const std::int64_t> batches, std::int64_t row,
                         std::int64_t column) {
  Result<View> view = view_for(tensor, batches);
  if (!view) return view;
  view->strides[ProductArguments::kRow] = row;
  view->strides[ProductArguments::kColumn] = column;
  return view;
}

// The dimensions of an operand but those of its matrix, seen as the result's batches.
std::vector<std::int64_t> batch_strides(const Seen& tensor, std::size_t own, std::span<const std::int64_t> batches) {
  const std::size_t leading = tensor.strides.size() - own;
  const Seen outer{{tensor.type.dtype,
                    {tensor.type.shape.begin(), tensor.type.shape.begin() + static_cast<std::ptrdiff_t>(leading)}},
                   tensor.data,
                   {tensor.strides.begin(), tensor.strides.begin() + static_cast<std::ptrdiff_t>(leading)}};
  return broadcast_strides(outer, batches);
}

// alpha·a·b + beta·addend; a vector is a row on the left and a column on the right.
struct Factors {
  Seen a, b;
  bool swaps = false;  // b is given with rows and columns exchanged
  const Seen* addend = nullptr;
  double alpha = 1, beta = 1;
};

Result<ProductArguments> arguments_of(const Factors& factors, const Seen& result) {
  const Seen &a = factors.a, &b = factors.b;
  const std::size_t a_own = a.strides.size() > 1 ? 2 : 1, b_own = b.strides.size() > 1 ? 2 : 1, own = a_own + b_own - 2;
  const std::vector<std::int64_t>& shape = result.type.shape;
  const std::span<const std::int64_t> batches(shape.data(), shape.size() - own);
  ProductArguments arguments;
  arguments.k = a.type.shape.back();
  if (a_own == 2) arguments.m = a.type.shape[a.type.shape.size() - 2];
  std::int64_t b_row = b.strides[b.strides.size() - b_own], b_column = b_own == 2 ? b.strides.back() : 0;
  if (factors.swaps) std::swap(b_row, b_column);
  if (b_own == 2) arguments.n = b.type.shape[b.type.shape.size() - (factors.swaps ? 2 : 1)];
  const std::int64_t a_row = a_own == 2 ? a.strides[a.strides.size() - 2] : 0;
  std::vector<std::vector<std::int64_t>> strides{batch_strides(a, a_own, batches), batch_strides(b, b_own, batches),
                                                 batch_strides(result, own, batches)};
  std::vector<std::int64_t> added;  // of the addend, which broadcasts to the whole result
  if (factors.addend != nullptr) {
    added = broadcast_strides(*factors.addend, shape);
    strides.emplace_back(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(batches.size()));
  }
  const Walk walk = walk_over(batches, strides);
  if (walk.sizes.size() > ProductArguments::kRow)
    return bad_input("kernels of cuda take products of at most " + std::to_string(ProductArguments::kRow) +
                     " dimensions of batches");
  const Result<Sizes> batch = sizes_for(walk.sizes);
  if (!batch) return batch.error();
  arguments.batch = *batch;
  const auto last = [&](const std::vector<std::int64_t>& all, bool is_row) -> std::int64_t {
    const bool has = is_row ? a_own == 2 : b_own == 2;
    if (!has) return 0;
    return is_row ? all[all.size() - own] : all.back();
  };
  const Result<View> left = matrix_view(a, walk.strides[0], a_row, a.strides.back()),
                     right = matrix_view(b, walk.strides[1], b_row, b_column),
                     made =
                         matrix_view(result, walk.strides[2], last(result.strides, true), last(result.strides, false));
  if (!left) return left.error();
  if (!right) return right.error();
  if (!made) return made.error();
  arguments.a = *left;
  arguments.b = *right;
  arguments.result = *made;
  arguments.alpha = factors.alpha;
  arguments.beta = factors.beta;
  if (factors.addend != nullptr) {
    const Result<View> view = matrix_view(*factors.addend, walk.strides[3], last(added, true), last(added, false));
    if (!view) return view.error();
    arguments.addend = *view;
    arguments.adds = true;
  }
  return arguments;
}

// The factors as a library takes them; nothing: it does not, or has no algorithm.
Result<std::optional<LibraryProduct>> for_library(const OpWriter& writer, const Factors& factors, const Seen& result) {
  const Result<ProductArguments> arguments = arguments_of(factors, result);
  if (!arguments) return arguments.error();
  return plan_product(writer, *arguments);
}

// False: no library computes it. Factors that lie otherwise are copied first, where that is all that is missing.
Result<bool> multiply_by_library(OpWriter& writer, Factors factors, const Seen& result) {
  if (!writer.plan_product) return false;
  Result<std::optional<LibraryProduct>> made = for_library(writer, factors, result);
  if (!made) return made.error();
  if (!*made && !(factors.a.is_contiguous() && factors.b.is_contiguous())) {
    Factors copied = factors;
    for (Seen* factor : {&copied.a, &copied.b}) {
      if (!factor->is_contiguous()) *factor = seen_at(nullptr, factor->type);
    }
    made = for_library(writer, copied, result);
    if (!made) return made.error();
    if (!*made) return false;
    for (Seen* factor : {&factors.a, &factors.b}) {
      Result<Seen> rows = writer.in_rows(*factor);
      if (!rows) return rows.error();
      *factor = std::move(*rows);
    }
    made = for_library(writer, factors, result);
    if (!made) return made.error();
  }
  if (!*made) return false;
  LibraryProduct& taken = **made;
  if (taken.copies_addend) {
    const Seen addend{{factors.addend->type.dtype, result.type.shape},
                      factors.addend->data,
                      broadcast_strides(*factors.addend, result.type.shape)};
    if (Status status = writer.copy(addend, result); !status) return status.error();
  }
  taken.product.workspace = writer.workspace(taken.product.workspace_bytes);
  writer.multiply(taken.product);
  return true;
}

Status write(OpWriter& writer, const Factors& factors, const Seen& result) {
  const Result<bool> is_written = multiply_by_library(writer, factors, result);
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  const Result<ProductArguments> arguments = arguments_of(factors, result);
  if (!arguments) return arguments.error();
  std::vector<Range> reads{factors.a.range(), factors.b.range()};
  if (factors.addend != nullptr) reads.push_back(factors.addend->range());
  writer.launch(KernelId::product, *arguments, result.type.elements(), std::move(reads), {result.range()});
  return Done{};
}

Status write_product(OpWriter& writer) {
  return write(writer, {writer.operands[0], writer.operands[1]}, writer.results[0]);
}

Status write_added_product(OpWriter& writer) {
  return write(writer,
               {writer.operands[1], writer.operands[2], false, &writer.operands[0], writer.call.node.number("alpha", 1),
                writer.call.node.number("beta", 1)},
               writer.results[0]);
}

// A column times a row.
Status write_outer(OpWriter& writer) {
  Factors factors{writer.operands[0], writer.operands[1]};
  factors.a.type.shape.push_back(1);
  factors.a.strides.push_back(1);
  factors.b.type.shape.insert(factors.b.type.shape.begin(), 1);
  factors.b.strides.insert(factors.b.strides.begin(), factors.b.type.shape.back());
  return write(writer, factors, writer.results[0]);
}

Status write_linear(OpWriter& writer) {
  return write(writer, {*writer.operand("input"), *writer.operand("weight"), true, writer.operand("bias")},
               writer.results[0]);
}

}  // namespace

Status multiply(OpWriter& writer, const Seen& a, const Seen& b, const Seen& result) {
  return write(writer, {a, b}, result);
}

WriteOp product_op(std::string_view op) {
  if (op == "aten.mm" || op == "aten.bmm" || op == "aten.matmul" || op == "aten.mv" || op == "aten.dot")
    return write_product;
  if (op == "aten.outer") return write_outer;
  if (op == "aten.addmm" || op == "aten.baddbmm") return write_added_product;
  return op == "aten.linear" ? write_linear : nullptr;
}

}  // namespace meshwright::cuda
