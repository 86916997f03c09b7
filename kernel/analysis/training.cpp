#include "meshwright/training.h"

namespace meshwright {

bool TrainingSettings::reduces_each_microbatch(ZeroStage stage) const { return stage >= ZeroStage::gradient || !keep_gradients; }

bool TrainingSettings::reduces_at_end(ZeroStage stage) const {
  return stage == ZeroStage::optimizer && microbatches == 1 && !reduces_each_microbatch(stage);
}

std::int64_t TrainingSettings::optimizer_values() const {
  switch (optimizer) {
    case Optimizer::sgd: return 0;
    case Optimizer::momentum: return 1;
    case Optimizer::adam:
    case Optimizer::adamw: return 2;
  }
  return 0;
}

std::int64_t TrainingSettings::gradient_bytes(DType dtype) const { return size_bytes(gradient_dtype(dtype)); }

std::int64_t TrainingSettings::optimizer_bytes(DType dtype) const {
  const std::int64_t master = size_bytes(master_dtype);
  return (dtype == master_dtype ? 0 : master) + optimizer_values() * master;
}

std::int64_t TrainingSettings::step_bytes(DType dtype) const {
  const std::int64_t own = size_bytes(dtype), master = size_bytes(master_dtype);
  const std::int64_t copy = dtype == master_dtype ? 0 : 2 * master;  // read and written
  const std::int64_t value = dtype == master_dtype ? 2 * own : own;  // read and written, or written from the copy
  return gradient_bytes(dtype) + value + copy + 2 * optimizer_values() * master;
}

Result<Optimizer> parse_optimizer(const std::string& name) {
  if (name == "sgd") return Optimizer::sgd;
  if (name == "momentum") return Optimizer::momentum;
  if (name == "adam") return Optimizer::adam;
  if (name == "adamw") return Optimizer::adamw;
  return bad_input("[train] optimizer '" + name + "': known are sgd, momentum, adam, adamw");
}

void retype(Graph& graph, DType to) {
  for (Value& value : graph.values) {
    const DType from = value.type.dtype;
    if (from == DType::float32 || from == DType::float16 || from == DType::bfloat16) value.type.dtype = to;
  }
}

}  // namespace meshwright
