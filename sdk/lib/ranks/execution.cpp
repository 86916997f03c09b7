#include "execution.h"

#include <cstring>

#include "box_runs.h"
#include "combine.h"
#include "optimizer.h"

namespace meshwright {

std::string describe(const Program& program, std::size_t index) {
  const Instruction& instruction = program.instructions[index];
  std::string what = name(instruction.kind);
  if (instruction.kind == InstructionKind::compute) what = instruction.op + " '" + instruction.name + "'";
  if (instruction.kind == InstructionKind::move) {
    what = std::string(name(instruction.move.kind)) + " along axis " + std::to_string(instruction.move.axis) + " of '" +
           program.values[instruction.operands[0].value].name + "'";
  }
  if (instruction.kind == InstructionKind::update) what += " '" + program.parameters[instruction.parameter].name + "'";
  return "instruction " + std::to_string(index) + " (" + what + ")";
}

Tensor cut(const Tensor& whole, const ShardedType& type, const Mesh& mesh,
           const std::vector<std::int64_t>& coordinates) {
  Tensor part(local_type(type, mesh));
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (type.layout[axis] == Placement::partial_sum() && coordinates[axis] != 0) return part;
  }
  if (whole.bytes().empty()) return part;
  const Box here = box_of(type.layout, type.atoms, mesh, coordinates);
  const Box all{std::vector<std::int64_t>(type.atoms.sizes.size(), 0), type.atoms.sizes};
  const auto size = static_cast<std::size_t>(size_bytes(type.type.dtype));
  for_each_run(all, here, intersect(all, here), [&](std::size_t from, std::size_t to, std::size_t count) {
    std::memcpy(part.bytes().data() + to * size, whole.bytes().data() + from * size, count * size);
  });
  return part;
}

Execution::Execution(const BackendInput& input, const std::vector<const Tensor*>& sources, std::int64_t rank,
                     Transport& transport)
    : input_(input),
      program_(input.program),
      sources_(sources),
      rank_(rank),
      coordinates_(coordinates_of(input.program.mesh, rank)),
      transport_(transport),
      values_(input.program.values.size()) {}

void Execution::count(std::int64_t bytes, std::size_t index) {
  held_bytes_ += bytes;
  if (held_bytes_ <= peak_bytes_) return;
  peak_bytes_ = held_bytes_;
  peak_instruction_ = static_cast<std::int64_t>(index);
}

void Execution::keep(ProgramValueId id, Tensor tensor, std::size_t index) {
  count(tensor.type().bytes(), index);
  values_[id] = {std::make_shared<Tensor>(std::move(tensor)), {}};
}

void Execution::load() {
  std::size_t source = 0;
  const auto take = [&](ProgramValueId id) {
    keep(id, cut(*sources_[source++], program_.type(id), program_.mesh, coordinates_), 0);
  };
  for (const ProgramParameter& parameter : program_.parameters) {
    take(parameter.value);
    // What the optimizer keeps from step to step is there from the start.
    count(optimizer_bytes(program_, parameter), 0);
  }
  for (const ProgramInput& input : program_.inputs) take(input.value);
}

Result<const Execution::Held*> Execution::held(ProgramValueId id) const {
  if (!values_[id].storage) return internal_error("value '" + program_.values[id].name + "' is not there");
  return &values_[id];
}

Result<Execution::Reading> Execution::read(ProgramValueId id) const {
  const Result<const Held*> value = held(id);
  if (!value) return value.error();
  std::shared_ptr<const Tensor> seen = (*value)->storage;
  for (const Held::View& view : (*value)->views) {
    Result<std::vector<Tensor>> results = call(program_.instructions[view.instruction], {seen.get()});
    if (!results) return results.error();
    seen = std::make_shared<const Tensor>(std::move((*results)[view.result]));
  }
  return Reading(std::move(seen));
}

Result<bool> Execution::execute(std::size_t index) {
  const Instruction& instruction = program_.instructions[index];
  const auto done = [](const Status& status) -> Result<bool> {
    if (!status) return status.error();
    return true;
  };
  switch (instruction.kind) {
    case InstructionKind::compute:
      return done(compute_op(instruction, index));
    case InstructionKind::move:
      return move(instruction, index);
    case InstructionKind::accumulate:
      return done(accumulate(instruction));
    case InstructionKind::update:
      return done(update(instruction));
    case InstructionKind::free:
      return done(drop(instruction));
    case InstructionKind::convert:
    case InstructionKind::load_parameter:
    case InstructionKind::store_gradient:
      break;
  }
  return bad_input("the program is not finished; run all passes before it");
}

// A storage goes with the last value that shares it.
Status Execution::drop(const Instruction& instruction) {
  for (const ProgramOperand& operand : instruction.operands) {
    const Result<const Held*> value = held(operand.value);
    if (!value) return value.error();
    if ((*value)->storage.use_count() == 1) held_bytes_ -= (*value)->storage->type().bytes();
    values_[operand.value] = {};
  }
  return Done{};
}

Result<std::vector<Tensor>> Execution::call(const Instruction& instruction, const std::vector<const Tensor*>& operands) const {
  const Node node = node_of(instruction, coordinates_);
  OpCall call{node, {}, {}};
  for (const Tensor* operand : operands) call.operands.push_back(operand->type());
  for (const ProgramValueId result : instruction.results) call.results.push_back(program_.local(result));
  Result<std::vector<Tensor>> results = compute(call, operands, input_.ops, input_.kernels);
  if (results && results->size() != instruction.results.size()) return plugin_failed("a result is missing");
  return results;
}

Status Execution::make_views(const Instruction& instruction, std::size_t index) {
  const Result<const Held*> value = held(instruction.operands[0].value);
  if (!value) return value.error();
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    Held view = **value;
    view.views.push_back({index, i});
    values_[instruction.results[i]] = std::move(view);
  }
  return Done{};
}

Status Execution::compute_op(const Instruction& instruction, std::size_t index) {
  if (!instruction.local) return bad_input("the program is not finished: this is on whole shapes");
  if (instruction.alias) return make_views(instruction, index);
  std::vector<Reading> readings;
  std::vector<const Tensor*> operands;
  for (const ProgramOperand& operand : instruction.operands) {
    Result<Reading> tensor = read(operand.value);
    if (!tensor) return tensor.error();
    operands.push_back(&**tensor);
    readings.push_back(std::move(*tensor));
  }
  Result<std::vector<Tensor>> results = call(instruction, operands);
  if (!results) return results.error();
  for (std::size_t i = 0; i < results->size(); ++i) keep(instruction.results[i], std::move((*results)[i]), index);
  return Done{};
}

Result<bool> Execution::move(const Instruction& instruction, std::size_t index) {
  const Result<Reading> source = read(instruction.operands[0].value);
  if (!source) return source.error();
  Tensor result(program_.local(instruction.results[0]));
  Result<bool> met = transport_.move(rank_, index, **source, result);
  if (met && *met) keep(instruction.results[0], std::move(result), index);
  return met;
}

Status Execution::update(const Instruction& instruction) {
  const ProgramParameter& parameter = program_.parameters[instruction.parameter];
  const Result<Reading> gradient = read(instruction.operands[0].value);
  if (!gradient) return gradient.error();
  const Result<const Held*> changed = held(instruction.operands.size() > 1 ? instruction.operands[1].value : parameter.value);
  if (!changed) return changed.error();
  Tensor& storage = *(*changed)->storage;
  Status status = take_first_step(program_.training.optimizer, input_.optimizer, **gradient, storage);
  if (status && input_.observer) input_.observer->on_update(rank_, instruction.parameter, **gradient, storage);
  return status;
}

Status Execution::accumulate(const Instruction& instruction) {
  const Result<const Held*> held_sum = held(instruction.operands[0].value);
  if (!held_sum) return held_sum.error();
  const Result<Reading> addend = read(instruction.operands[1].value);
  if (!addend) return addend.error();
  Tensor& sum = *(*held_sum)->storage;
  const Combine add = combine_for(sum.type().dtype, false);
  if (add == nullptr) return bad_input("sums of " + to_string(sum.type()) + " are not computed");
  add(sum.bytes().data(), (*addend)->bytes().data(), static_cast<std::size_t>(sum.elements()));
  values_[instruction.results[0]] = **held_sum;
  return Done{};
}

Status Execution::give_outputs() const {
  for (std::uint32_t i = 0; input_.observer && i < program_.parameters.size(); ++i) {
    if (program_.parameters[i].updated == kNoId) continue;
    const Result<Reading> tensor = read(program_.parameters[i].updated);
    if (!tensor) return tensor.error();
    input_.observer->on_gathered(rank_, i, **tensor);
  }
  for (std::uint32_t i = 0; input_.observer && i < program_.outputs.size(); ++i) {
    const Result<Reading> tensor = read(program_.outputs[i].value);
    if (!tensor) return tensor.error();
    input_.observer->on_output(rank_, i, **tensor);
  }
  return Done{};
}

}  // namespace meshwright
