// What a model's matrix products compute in a training step, and how long devices at their peak would take: what model FLOPs utilization (MFU, Chowdhery et al. 2022) is a share of.
#pragma once

#include <cstddef>
#include <map>

#include "meshwright/cluster.h"
#include "meshwright/dtype.h"
#include "meshwright/model_analysis.h"
#include "meshwright/result.h"
#include "meshwright/training.h"

namespace meshwright {

struct ModelFlops {
  std::map<DType, double> by_dtype;  // in which the products are computed
  std::size_t unruled = 0;           // ops whose family states no cost: they count nothing

  [[nodiscard]] double sum() const;
};

// Of all microbatches of a step, forward and backward on one device: matrix products, convolutions and attention; of causal attention the half that is needed. Nothing counts that runs again,
// also not the scores that the backward of fused attention computes again. `model` is of one microbatch. Errors: bad_input for a model without a backward.
Result<ModelFlops> model_flops(const ModelAnalysis& model, const TrainingSettings& training);

// Seconds of one device at the peak that it states for each dtype. Errors: bad_input if it states none for one of them.
Result<double> seconds_at_peak(const ModelFlops& flops, const DeviceSpec& device, const TrainingSettings& training);

}  // namespace meshwright
