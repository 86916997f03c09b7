// Kernels for matrix products on the reference backend.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op_kernels.h"

namespace meshwright {

class OnednnMatmul final : public OpKernels {
 public:
  [[nodiscard]] bool reads_transposed(const OpCall& call, std::size_t operand) const override;

 private:
  Result<std::vector<Tensor>> do_compute(const OpCall& call, std::span<const Tensor* const> operands) const override;
};

}  // namespace meshwright
