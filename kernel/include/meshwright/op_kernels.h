// Kernels compute single ops on one device, for a backend (plugins of kind "kernels").
#pragma once

#include <span>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

// Computes what `evaluate` computes, up to rounding, and faster. Serves names "BACKEND:OP". Stateless and thread-safe.
class MESHWRIGHT_API OpKernels {
 public:
  virtual ~OpKernels();
  // The results; empty if it leaves this call to `evaluate`, for its dtype or an attribute.
  Result<std::vector<Tensor>> compute(const OpCall& call, std::span<const Tensor* const> operands) const;
  // Whether it computes such a call also from this operand transposed (OpCall::transposed), and so spares its caller a copy. No, unless
  // overridden. Where it says yes, it must not leave the call to `evaluate`.
  [[nodiscard]] virtual bool reads_transposed(const OpCall& call, std::size_t operand) const;

 private:
  virtual Result<std::vector<Tensor>> do_compute(const OpCall& call, std::span<const Tensor* const> operands) const = 0;
};

// Which kernels there are for a backend; null if an op has none.
class MESHWRIGHT_API KernelTable {
 public:
  virtual ~KernelTable();
  [[nodiscard]] virtual const OpKernels* find(std::string_view op) const = 0;
};

// One op on one device: by its kernel, else by its family's `evaluate`. Errors: bad_input if nobody computes it.
MESHWRIGHT_API Result<std::vector<Tensor>> compute(const OpCall& call, std::span<const Tensor* const> operands,
                                                   const OpTable& ops, const KernelTable* kernels);

}  // namespace meshwright
