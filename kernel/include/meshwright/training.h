// How the model is trained: what a parameter costs in memory and in the optimizer's step, and how a step's batch is cut.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwright/dtype.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright {

enum class Optimizer : std::uint8_t { sgd, momentum, adam, adamw };

// Which parts of a parameter are sharded over devices that all compute with the whole parameter (Rajbhandari et al. 2020, ZeRO).
enum class ZeroStage : std::uint8_t {
  none,
  optimizer,  // 1: the optimizer's state; the gradient is reduced to shards, and the new value gathered, once a step
  gradient,   // 2: the gradient too, which is reduced to shards after each microbatch
  value,      // 3: the value too, which is gathered when it is computed with
};

struct TrainingSettings {
  Optimizer optimizer = Optimizer::adamw;
  std::optional<DType> param_dtype;    // what the floating-point values of the model are retyped to; as exported if absent
  DType master_dtype = DType::float32;  // of the optimizer's own copy, where param_dtype differs, and of its state
  std::optional<DType> reduce_dtype;    // in which gradients are reduced and kept; the parameter's own if absent
  // The number of parts into which a step cuts the batch. Their losses are averaged; the graph is that of one part.
  std::int64_t microbatches = 1;
  // Their forwards and backwards as they follow each other, as step_order.h writes them; "": one microbatch after the other.
  std::string order;
  // True: gradients of microbatches add up on each device and are reduced once a step. False: after each microbatch.
  bool keep_gradients = true;

  std::string attention = "flash_2";  // the kernel whose rates attention in one op has (DeviceSpec::attention)
  bool tf32 = false;         // float32 products may run in TF32
  bool cuda_graphs = false;  // a step is replayed: the host launches nothing
  bool compile = false;      // a compiler makes one kernel of chains of elementwise ops and reductions (fusion.h)

  // Whether the gradient of a parameter at this stage is reduced over its devices after each microbatch; otherwise it adds
  // up on each of them, and is reduced once a step.
  [[nodiscard]] MESHWRIGHT_API bool reduces_each_microbatch(ZeroStage stage) const;
  // Whether the reduction of the gradient waits until all computing of the step is done: that of ZeRO-1 without microbatches to
  // add up, which would be ZeRO-2 otherwise. Other reductions overlap with the rest of the backward.
  [[nodiscard]] MESHWRIGHT_API bool reduces_at_end(ZeroStage stage) const;
  // Numbers that the optimizer keeps for each element of a parameter.
  [[nodiscard]] MESHWRIGHT_API std::int64_t optimizer_values() const;
  // In which the gradient of a parameter of this dtype is reduced and kept.
  [[nodiscard]] DType gradient_dtype(DType dtype) const { return reduce_dtype.value_or(dtype); }
  // Bytes of one element on the device that holds it: of its gradient, and of the optimizer's master copy and state.
  [[nodiscard]] MESHWRIGHT_API std::int64_t gradient_bytes(DType dtype) const;
  [[nodiscard]] MESHWRIGHT_API std::int64_t optimizer_bytes(DType dtype) const;
  // Bytes that the optimizer's step moves for one element.
  [[nodiscard]] MESHWRIGHT_API std::int64_t step_bytes(DType dtype) const;
};

MESHWRIGHT_API Result<Optimizer> parse_optimizer(const std::string& name);

// Gives every floating-point value of at least 16 and at most 32 bits the dtype `to`; float64 and integers stay.
MESHWRIGHT_API void retype(Graph& graph, DType to);

}  // namespace meshwright
