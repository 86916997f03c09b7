// Kernels for convolutions on the reference backend.
#pragma once

#include <span>
#include <vector>

#include "meshwright/op_kernels.h"

namespace meshwright {

class OnednnConvolution final : public OpKernels {
 private:
  Result<std::vector<Tensor>> do_compute(const OpCall& call, std::span<const Tensor* const> operands) const override;
};

}  // namespace meshwright
