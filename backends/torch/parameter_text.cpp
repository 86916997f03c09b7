#include "parameter_text.h"

#include "layout_text.h"
#include "move_texts.h"
#include "python_text.h"

namespace meshwright::torch {

namespace {

Status check(const ProgramParameter& parameter, const TensorType& type, const TrainingSettings& training) {
  const DType master = training.master_dtype;
  const bool wide = type.dtype == DType::float64;  // which stays as it is, whatever the settings
  if (!is_floating(type.dtype) || wide || size_bytes(master) >= size_bytes(type.dtype)) return Done{};
  return bad_input("[train] master_dtype: the optimizer's copy of '" + parameter.name + "' would be " + std::string(name(master)) +
                   ", narrower than the parameter itself (" + std::string(name(type.dtype)) +
                   "), and what an emitted program's optimizer updates is at least as wide; plan with master_dtype = \"fp32\"");
}

// Null: the forward does without the parameter.
const Load* load_of(const ForwardProgram& forward, std::uint32_t parameter) {
  for (const auto& step : forward.steps) {
    const auto* load = std::get_if<Load>(&step);
    if (load != nullptr && load->parameter == parameter) return load;
  }
  return nullptr;
}

}  // namespace

std::string dtype_argument(const TensorType& type) { return type.dtype == DType::float32 ? "" : ", dtype=" + dtype(type.dtype); }

std::optional<DType> master_dtype(const TensorType& parameter, const TrainingSettings& training) {
  const bool narrow = is_floating(parameter.dtype) && size_bytes(parameter.dtype) <= size_bytes(training.master_dtype);
  return narrow && parameter.dtype != training.master_dtype ? std::optional(training.master_dtype) : std::nullopt;
}

Result<std::string> parameter_text(const ForwardProgram& forward, std::uint32_t index, const TrainingSettings& training) {
  const Program& program = forward.program;
  const ProgramParameter& parameter = program.parameters[index];
  const ShardedType stored = program.type(parameter.value);
  if (Status status = check(parameter, stored.type, training); !status) return status.error();
  ShardedType state = stored;
  state.layout = parameter.state;
  std::string text = "parameter(" + layout(state, program.mesh) + dtype_argument(state.type);
  const auto add = [&](const char* name, const std::vector<std::string>& moves) {
    if (!moves.empty()) text += std::string(", ") + name + "=" + list(moves);
  };
  if (const auto master = master_dtype(state.type, training)) text += ", master=" + dtype(*master);
  if (is_floating(state.type.dtype) && training.gradient_dtype(state.type.dtype) != state.type.dtype) {
    text += ", summed=" + dtype(*training.reduce_dtype);
  }
  add("stored", move_texts(state, parameter.gather.moves, program.mesh));
  const Load* load = load_of(forward, index);
  if (load == nullptr) return text + ")";
  add("loaded", move_texts(stored, load->moves, program.mesh));
  ShardedType gradient = forward.gradient_of(load->result);
  std::vector<std::string> reduced = move_texts(gradient, load->back, program.mesh);
  gradient.layout = parameter.reduced;
  for (std::string& settled : move_texts(gradient, parameter.settle.moves, program.mesh)) reduced.push_back(std::move(settled));
  add("reduced", reduced);
  if (training.microbatches > 1 && !training.reduces_each_microbatch(parameter.zero)) text += ", once=True";
  if (parameter.regather) text += ", regather=True";
  if (parameter.prefetch) text += ", prefetch=True";
  return text + ")";
}

}  // namespace meshwright::torch
