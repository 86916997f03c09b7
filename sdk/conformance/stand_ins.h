// Numbers for ops that nobody here computes (FFTs, a third party's op without `evaluate`, complex numbers, PyTorch's own
// gradients), so that the rest of a step can be held against one device: the same numbers wherever the op runs on the
// same operands. They run replicated, or are element-wise, so serial and sharded runs get the same; what such an op computes is not
// checked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "meshwright/backend.h"

namespace meshwright {

class StandIns final : public KernelTable {
 public:
  // Both outlive it. `kernels`, those of a backend, may be null.
  StandIns(const OpTable& ops, const KernelTable* kernels);
  ~StandIns() override;

  [[nodiscard]] const OpKernels* find(std::string_view op) const override;

  // The ops that had to be stood in for so far, sorted; a gradient of PyTorch's as "gradient of aten.fft_fft2".
  [[nodiscard]] std::vector<std::string> ops() const;

 private:
  class Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace meshwright
