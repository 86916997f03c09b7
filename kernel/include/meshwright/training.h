// How the model is trained: what a parameter costs in memory and in the optimizer's step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "meshwright/dtype.h"
#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"

namespace meshwright {

enum class Optimizer : std::uint8_t { sgd, momentum, adamw };

struct TrainingSettings {
  Optimizer optimizer = Optimizer::adamw;
  std::optional<DType> param_dtype;    // what the floating-point values of the model are retyped to; as exported if absent
  DType master_dtype = DType::float32;  // of the optimizer's own copy, where param_dtype differs, and of its state

  // Numbers that the optimizer keeps for each element of a parameter.
  [[nodiscard]] MESHWRIGHT_API std::int64_t optimizer_values() const;
  // Bytes that one element of a parameter costs on the device that holds it: value, gradient, master copy, state.
  [[nodiscard]] MESHWRIGHT_API std::int64_t state_bytes(DType dtype) const;
  // Bytes that the optimizer's step moves for one element.
  [[nodiscard]] MESHWRIGHT_API std::int64_t step_bytes(DType dtype) const;
};

MESHWRIGHT_API Result<Optimizer> parse_optimizer(const std::string& name);

// Gives every floating-point value of at least 16 and at most 32 bits the dtype `to`; float64 and integers stay.
MESHWRIGHT_API void retype(Graph& graph, DType to);

}  // namespace meshwright
