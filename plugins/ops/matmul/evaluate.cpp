#include "broadcast.h"
#include "matmul.h"
#include "numbers.h"

namespace meshwright {

namespace {

// The sizes of one product, m×k times k×n.
struct ProductSize {
  std::size_t m = 1, k = 1, n = 1;
};

// out += a·b. A block of columns at a time, so that the part of b that all rows read stays in the cache; each element
// adds its terms in the order of k, whatever the block.
void add_product(const double* a, const double* b, double* out, const ProductSize& size) {
  constexpr std::size_t kBlock = 128;
  for (std::size_t first = 0; first < size.n; first += kBlock) {
    const std::size_t last = std::min(size.n, first + kBlock);
    for (std::size_t i = 0; i < size.m; ++i) {
      for (std::size_t p = 0; p < size.k; ++p) {
        const double left = a[i * size.k + p];
        for (std::size_t j = first; j < last; ++j) out[i * size.n + j] += left * b[p * size.n + j];
      }
    }
  }
}

Numbers transposed(const Numbers& matrix, std::size_t rows, std::size_t columns) {
  Numbers result(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
  }
  return result;
}

// The dimensions before the matrix; a vector and a matrix have none.
std::vector<std::int64_t> leading(const TensorType& type) {
  return {type.shape.begin(), type.shape.end() - std::min<std::int64_t>(type.rank(), 2)};
}

// mm, bmm and matmul, whose leading dimensions broadcast. A vector is a row on the left and a column on the right.
Numbers product(const Tensor& a, const Tensor& b, const TensorType& result) {
  const TensorType& left = a.type();
  const TensorType& right = b.type();
  ProductSize size;
  size.k = to_size(left.shape.back());
  if (left.rank() > 1) size.m = to_size(*(left.shape.end() - 2));
  if (right.rank() > 1) size.n = to_size(right.shape.back());
  const std::int64_t own = (left.rank() > 1 ? 1 : 0) + (right.rank() > 1 ? 1 : 0);  // dimensions that are no batch
  const TensorType batches{result.dtype, {result.shape.begin(), result.shape.end() - own}};
  const BroadcastIndex left_batch(leading(left), batches.shape), right_batch(leading(right), batches.shape);
  const Numbers left_numbers = numbers_of(a), right_numbers = numbers_of(b);
  Numbers out = zeros(result);
  for (std::int64_t batch = 0; batch < batches.elements(); ++batch) {
    add_product(left_numbers.data() + to_size(left_batch(batch)) * size.m * size.k,
                right_numbers.data() + to_size(right_batch(batch)) * size.k * size.n,
                out.data() + to_size(batch) * size.m * size.n, size);
  }
  return out;
}

// input · weightᵀ
Numbers linear(const Tensor& input, const Tensor& weight, const TensorType& result) {
  const std::size_t n = to_size(weight.shape()[0]), k = to_size(weight.shape()[1]);
  Numbers out = zeros(result);
  add_product(numbers_of(input).data(), transposed(numbers_of(weight), n, k).data(), out.data(),
              {out.size() / n, k, n});
  return out;
}

// out = alpha·out + beta·addend, which broadcasts.
void add(Numbers& out, const TensorType& type, const Tensor& addend, double beta, double alpha) {
  const BroadcastIndex index(addend.shape(), type.shape);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = alpha * out[i] + beta * addend.get(index(static_cast<std::int64_t>(i)));
  }
}

}  // namespace

std::vector<Tensor> matmul_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const TensorType& type = call.results[0];
  Numbers out;
  if (call.node.op == "aten.linear") {
    out = linear(*operands[0], *operands[1], type);
    if (operands.size() > 2) add(out, type, *operands[2], 1, 1);
  } else if (adds_to_self(call.node)) {
    out = product(*operands[1], *operands[2], type);
    add(out, type, *operands[0], call.node.number("beta", 1), call.node.number("alpha", 1));
  } else {
    out = product(*operands[0], *operands[1], type);
  }
  return listed(written(call.result(0), out));
}

}  // namespace meshwright
