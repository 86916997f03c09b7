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
                                   "reference:aten.bmm",    "reference:aten.matmul", nullptr};

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

// out = scale · a·b + keep · out, for mm, bmm, addmm and matmul. A vector is a row on the left and a column on the
// right.
bool product(const Tensor& a, const Tensor& b, Tensor& out, float scale, float keep) {
  const TensorType &left = a.type(), &right = b.type();
  Gemm size{.m = left.rank() > 1 ? *(left.shape.end() - 2) : 1,
            .n = right.rank() > 1 ? right.shape.back() : 1,
            .k = left.shape.back(),
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

Result<std::vector<Tensor>> OnednnMatmul::do_compute(const OpCall& call,
                                                     std::span<const Tensor* const> operands) const {
  const auto is_float = [](const TensorType& type) { return type.dtype == DType::float32; };
  if (!std::ranges::all_of(call.operands, is_float) || !is_float(call.results[0])) return std::vector<Tensor>{};
  Tensor out(call.results[0]);
  bool done = false;
  if (call.node.op == "aten.linear") {
    done = linear(operands, out);
  } else if (call.node.op == "aten.addmm") {
    fill(out, *operands[0], static_cast<float>(call.node.number("beta", 1)));
    done = product(*operands[1], *operands[2], out, static_cast<float>(call.node.number("alpha", 1)), 1);
  } else {
    done = product(*operands[0], *operands[1], out, 1, 0);
  }
  if (!done) return internal_error("oneDNN refuses this product");
  std::vector<Tensor> results;
  results.push_back(std::move(out));
  return results;
}

MESHWRIGHT_PLUGIN("kernels", "onednn_matmul", "0.1.0", "Apache-2.0", "Matrix products by oneDNN, in float32", kServes,
                  nullptr, 0, (create_plugin<OpKernels, OnednnMatmul>), destroy_plugin<OpKernels>)

}  // namespace meshwright
