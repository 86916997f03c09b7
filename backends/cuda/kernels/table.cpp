#include "table.h"

#include "all.h"

namespace meshwright::cuda {

const std::array<Kernel, kKernels>& kernels() {
#define MESHWRIGHT_ENTRY(name, Arguments) {#name, sizeof(Arguments), name##_on_host}
  static const std::array<Kernel, kKernels> all = {{
      MESHWRIGHT_ENTRY(copy, CopyArguments),
      MESHWRIGHT_ENTRY(pointwise, PointwiseArguments),
      MESHWRIGHT_ENTRY(product, ProductArguments),
      MESHWRIGHT_ENTRY(reduce, ReduceArguments),
      MESHWRIGHT_ENTRY(running_sum, RunningSumArguments),
      MESHWRIGHT_ENTRY(norm_statistics, NormArguments),
      MESHWRIGHT_ENTRY(norm_rows, NormArguments),
      MESHWRIGHT_ENTRY(norm_input_gradient, NormArguments),
      MESHWRIGHT_ENTRY(norm_weight_gradient, NormArguments),
      MESHWRIGHT_ENTRY(norm_bias_gradient, NormArguments),
      MESHWRIGHT_ENTRY(optimize, OptimizerArguments),
  }};
#undef MESHWRIGHT_ENTRY
  return all;
}

}  // namespace meshwright::cuda
