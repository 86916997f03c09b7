// Matrix products by oneDNN, in float32. Everything else is left to the family.
#include "onednn.h"

#include <algorithm>
#include <cstring>

#include "broadcast.h"
#include "gemm.h"
#include "meshwright/plugin.h"
#include "numbers.h"

namespace meshwright {

namespace {

constexpr const char* kServes[] = {"reference:aten.linear", "reference:aten.addmm",  "reference:aten.mm",
                                   "reference:aten.bmm",    "reference:aten.matmul",
                                   "mpi:aten.linear",       "mpi:aten.addmm",        "mpi:aten.mm",
                                   "mpi:aten.bmm",          "mpi:aten.matmul",       nullptr};

bool is_in_float32(const OpCall& call) {
  const auto is_float = [](const TensorType& type) { return type.dtype == DType::float32; };
  return std::ranges::all_of(call.operands, is_float) && is_float(call.results[0]);
}

// The dimensions before the matrix; a vector and a matrix have none.
std::vector<std::int64_t> leading(const TensorType& type) {
  return {type.shape.begin(), type.shape.end() - std::min<std::int64_t>(type.rank(), 2)};
}

// out = scale · addend, which broadcasts.
void fill(Tensor& out, const Tensor& addend, float scale) {
  const std::span<float> target = out.as<float>();
  const std::span<const float> source = addend.as<float>();
  if (addend.type().rank() == 1 && source.size() == to_size(out.shape().back())) {
    for (std::size_t row = 0; row < target.size(); row += source.size()) {
      std::ranges::transform(source, target.begin() + static_cast<std::ptrdiff_t>(row), [scale](float number) { return scale * number; });
    }
    return;
  }
  const BroadcastIndex index(addend.shape(), out.shape());
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = scale * source[to_size(index(static_cast<std::int64_t>(i)))];
}

// The operands of a product: as they lie in memory, and of which types they are.
struct Factors {
  const Tensor &a, &b;
  const TensorType &left, &right;
  bool transposed_left = false, transposed_right = false;
};

Factors factors_of(const OpCall& call, std::span<const Tensor* const> operands, std::size_t first) {
  const auto transposed = [&](std::size_t i) { return !call.transposed.empty() && call.transposed[i]; };
  return {*operands[first], *operands[first + 1], call.operands[first], call.operands[first + 1], transposed(first), transposed(first + 1)};
}

// out = scale · a·b + keep · out, for mm, bmm, addmm and matmul. A vector is a row on the left and a column on the
// right.
bool product(const Factors& factors, Tensor& out, float scale, float keep) {
  const auto& [a, b, left, right, transposed_left, transposed_right] = factors;
  Gemm size{.m = left.rank() > 1 ? *(left.shape.end() - 2) : 1,
            .n = right.rank() > 1 ? right.shape.back() : 1,
            .k = left.shape.back(),
            .transpose_a = transposed_left,
            .transpose_b = transposed_right,
            .alpha = scale,
            .beta = keep};
  std::vector<std::int64_t> batches = leading(left);
  if (right.rank() <= 2) {  // one matrix for all batches: one product over all rows
    size.m = left.elements() / std::max<std::int64_t>(size.k, 1);
    return gemm(size, a.as<float>().data(), b.as<float>().data(), out.as<float>().data());
  }
  const std::int64_t own = left.rank() > 1 ? 2 : 1;  // of the result's dimensions, those that are no batch
  batches.assign(out.shape().begin(), out.shape().end() - own);
  const BroadcastIndex left_batch(leading(left), batches), right_batch(leading(right), batches);
  const std::int64_t count = out.elements() / std::max<std::int64_t>(size.m * size.n, 1);
  for (std::int64_t batch = 0; batch < count; ++batch) {
    if (!gemm(size, a.as<float>().data() + left_batch(batch) * size.m * size.k,
              b.as<float>().data() + right_batch(batch) * size.k * size.n,
              out.as<float>().data() + batch * size.m * size.n)) {
      return false;
    }
  }
  return true;
}

// input · weightᵀ + bias
bool linear(std::span<const Tensor* const> operands, Tensor& out) {
  const Tensor &input = *operands[0], &weight = *operands[1];
  const std::int64_t n = weight.shape()[0], k = weight.shape()[1];
  const bool biased = operands.size() > 2;
  if (biased) fill(out, *operands[2], 1);
  return gemm({.m = out.elements() / std::max<std::int64_t>(n, 1),
               .n = n,
               .k = k,
               .transpose_b = true,
               .beta = biased ? 1.0F : 0.0F},
              input.as<float>().data(), weight.as<float>().data(), out.as<float>().data());
}

}  // namespace

bool OnednnMatmul::reads_transposed(const OpCall& call, std::size_t operand) const {
  if (!is_in_float32(call)) return false;
  return call.node.op == "aten.mm" || call.node.op == "aten.bmm" || (call.node.op == "aten.addmm" && operand > 0);
}

Result<std::vector<Tensor>> OnednnMatmul::do_compute(const OpCall& call,
                                                     std::span<const Tensor* const> operands) const {
  if (!is_in_float32(call)) return std::vector<Tensor>{};
  Tensor out = call.result(0);
  bool done = false;
  if (call.node.op == "aten.linear") {
    done = linear(operands, out);
  } else if (call.node.op == "aten.addmm") {
    fill(out, *operands[0], static_cast<float>(call.node.number("beta", 1)));
    done = product(factors_of(call, operands, 1), out, static_cast<float>(call.node.number("alpha", 1)), 1);
  } else {
    done = product(factors_of(call, operands, 0), out, 1, 0);
  }
  if (!done) return internal_error("oneDNN refuses this product");
  return listed(std::move(out));
}

MESHWRIGHT_PLUGIN("kernels", "onednn_matmul", "0.1.0", "Apache-2.0", "Matrix products by oneDNN, in float32", kServes,
                  nullptr, 0, (create_plugin<OpKernels, OnednnMatmul>), destroy_plugin<OpKernels>)

}  // namespace meshwright
