#include "execution.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "box_runs.h"
#include "combine.h"

namespace meshwright {

std::string describe(const Program& program, const Occurrence& at) {
  const Instruction& instruction = program.instructions[at.instruction];
  std::string what = name(instruction.kind());
  if (const Compute* compute = instruction.compute()) what = compute->op + " '" + instruction.name + "'";
  if (const Move* move = instruction.move()) {
    what = std::string(name(move->kind)) + " along " + axes_text(*move) + " of '" +
           program.values[instruction.operands[0].value].name + "'";
  }
  if (instruction.kind() == InstructionKind::update) what += " '" + program.parameters[instruction.parameter].name + "'";
  const std::string microbatch = program.order.microbatches == 1 ? "" : ", microbatch " + std::to_string(at.microbatch);
  return "instruction " + std::to_string(at.instruction) + " (" + what + microbatch + ")";
}

namespace {

// What two boxes share, from a tensor that lies in the one to a tensor that lies in the other.
void copy_shared(const Tensor& from, const Box& lies_in, Tensor& to, const Box& goes_to) {
  const auto size = static_cast<std::size_t>(size_bytes(from.type().dtype));
  for_each_run(lies_in, goes_to, intersect(lies_in, goes_to), [&](std::size_t source, std::size_t target, std::size_t count) {
    std::memcpy(to.bytes().data() + target * size, from.bytes().data() + source * size, count * size);
  });
}

}  // namespace

Tensor cut(const Tensor& whole, const ShardedType& type, const Mesh& mesh,
           const std::vector<std::int64_t>& coordinates) {
  Tensor part(local_type(type, mesh));
  for (std::size_t axis = 0; axis < mesh.rank(); ++axis) {
    if (type.layout[axis] == Placement::partial_sum() && coordinates[axis] != 0) return part;
  }
  if (!whole.bytes().empty()) copy_shared(whole, whole_box(type.atoms.sizes), part, box_of(type.layout, type.atoms, mesh, coordinates));
  return part;
}

void paste(const Tensor& part, const ShardedType& type, const Mesh& mesh, const std::vector<std::int64_t>& coordinates, Tensor& whole) {
  if (!whole.bytes().empty()) copy_shared(part, box_of(type.layout, type.atoms, mesh, coordinates), whole, whole_box(type.atoms.sizes));
}

namespace {

void copy_elements(const Tensor& from, Tensor& to) { std::copy_n(from.bytes().data(), from.bytes().size(), to.bytes().data()); }

std::byte* new_memory(std::int64_t bytes) {
  constexpr std::size_t kStep = Arena::kAlignment;
  const std::size_t whole = (static_cast<std::size_t>(bytes) + kStep - 1) / kStep * kStep;
  void* memory = std::aligned_alloc(kStep, std::max(whole, kStep));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

Execution::Execution(const RankInput& input)
    : input_(input.input),
      program_(input_.program),
      steps_(input.steps),
      arena_(input.arena),
      device_(input.device),
      rank_(input.rank),
      coordinates_(coordinates_of(program_.mesh, rank_)),
      states_(program_.parameters.size()),
      values_(program_.values.size() * static_cast<std::size_t>(program_.order.microbatches)) {}

void Execution::count(std::int64_t bytes) {
  held_bytes_ += bytes;
  device_.now += bytes;
  device_.most = std::max(device_.most, device_.now);
  if (held_bytes_ <= peak_bytes_) return;
  peak_bytes_ = held_bytes_;
  peak_instruction_ = static_cast<std::int64_t>(steps_.empty() ? 0 : steps_[step_].instruction);
}

Tensor Execution::placed(ProgramValueId id, std::int64_t microbatch) {
  TensorType type = program_.local(id);
  const auto bytes = static_cast<std::size_t>(type.bytes());
  return Tensor::in({memory_.get() + arena_.offsets[program_.place(id, microbatch)], bytes}, std::move(type));
}

void Execution::keep(ProgramValueId id, Tensor placed) {
  count(placed.type().bytes());
  value(id) = {std::make_shared<Tensor>(std::move(placed)), {}};
}

void Execution::keep_copy(ProgramValueId id, const Tensor& tensor) {
  Tensor there = placed(id, microbatch_);
  copy_elements(tensor, there);
  keep(id, std::move(there));
}

Status Execution::load(const std::vector<const Tensor*>& parameters, const std::vector<const OptimizerState*>& states) {
  std::fill(values_.begin(), values_.end(), Held{});
  std::fill(states_.begin(), states_.end(), OptimizerState{});
  held_bytes_ = peak_bytes_ = microbatch_ = 0;
  if (!memory_) memory_.reset(new_memory(arena_.bytes));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ProgramParameter& parameter = program_.parameters[i];
    keep_copy(parameter.value, cut(*parameters[i], program_.type(parameter.value), program_.mesh, coordinates_));
    if (const OptimizerState* state = states[i]) {
      ShardedType type = program_.type(parameter.value);
      type.layout = parameter.state;
      const auto part_of = [&](const Tensor& whole) { return whole.elements() == 0 ? Tensor() : cut(whole, type, program_.mesh, coordinates_); };
      states_[i] = {state->steps, part_of(state->first), part_of(state->second)};
    }
    // What the optimizer keeps from step to step is there from the start.
    count(optimizer_bytes(program_, parameter));
  }
  return Done{};
}

Status Execution::begin(const std::vector<const Tensor*>& inputs, Carrier& carrier, RunObserver* observer) {
  carrier_ = &carrier;
  observer_ = observer;
  step_ = 0;
  received_bytes_ = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    microbatch_ = input.microbatch;
    keep_copy(input.value, cut(*inputs[i], program_.type(input.value), program_.mesh, coordinates_));
  }
  return Done{};
}

// What its carrier does beside the computing is the carrier's to finish.
Result<bool> Execution::finish() {
  return true;
}

Status Execution::end() {
  std::vector<Held> kept(values_.size());
  std::vector<std::pair<ProgramValueId, Tensor>> elsewhere;  // copies: where one has to go, another one may lie
  std::int64_t stays = 0;
  microbatch_ = 0;
  for (const ProgramParameter& parameter : program_.parameters) {
    const std::size_t before = program_.place(parameter.value, 0);
    const std::size_t now = parameter.updated == kNoId ? before : program_.place(parameter.updated, program_.order.microbatches - 1);
    if (arena_.offsets[now] == arena_.offsets[before]) kept[before] = std::move(values_[now]);
    else elsewhere.emplace_back(parameter.value, *values_[now].storage);
    stays += program_.local_bytes(parameter.value) + optimizer_bytes(program_, parameter);
  }
  count(stays - held_bytes_);
  values_ = std::move(kept);
  for (const auto& [id, tensor] : elsewhere) {
    Tensor there = placed(id, 0);
    copy_elements(tensor, there);
    value(id) = {std::make_shared<Tensor>(std::move(there)), {}};
  }
  return Done{};
}

Result<Tensor> Execution::part(ProgramValueId id, std::int64_t microbatch) const {
  Result<Reading> tensor = read(id, microbatch);
  if (!tensor) return tensor.error();
  return **tensor;
}

Result<const Execution::Held*> Execution::held(ProgramValueId id, std::int64_t microbatch) const {
  const Held& value = values_[program_.place(id, microbatch)];
  if (!value.storage) return internal_error("value '" + program_.values[id].name + "' is not there");
  return &value;
}

Result<Execution::Reading> Execution::read(ProgramValueId id, std::int64_t microbatch) const {
  const Result<const Held*> value = held(id, microbatch);
  if (!value) return value.error();
  return read(**value, (*value)->views.size());
}

Result<Execution::Reading> Execution::read(const Held& value, std::size_t views) const {
  std::shared_ptr<const Tensor> seen = value.storage;
  std::vector<std::shared_ptr<const Tensor>> behind;  // what is seen through views that own nothing
  for (std::size_t i = 0; i < views; ++i) {
    const Instruction& instruction = program_.instructions[value.views[i].instruction];
    if (instruction.compute()->keeps_order) {
      behind.push_back(seen);
      seen = std::make_shared<const Tensor>(Tensor::reshaped(*seen, program_.local(instruction.results[0])));
      continue;
    }
    const Node node = node_of(instruction, coordinates_);
    Result<std::vector<Tensor>> results = compute(call_of(node, instruction), std::array{seen.get()}, input_.ops, input_.kernels);
    if (!results) return results.error();
    seen = std::make_shared<const Tensor>(std::move((*results)[value.views[i].result]));
  }
  return Reading(std::move(seen), std::move(behind));
}

Result<bool> Execution::execute(std::size_t step) {
  step_ = step;
  microbatch_ = steps_[step].microbatch;
  const Instruction& instruction = program_.instructions[steps_[step].instruction];
  for (const ProgramValueId result : instruction.results) {
    if (arena_.offsets[program_.place(result, microbatch_)] == Arena::kNone) return bad_input("'" + program_.values[result].name + "' was freed before it is made");
  }
  const auto done = [](const Status& status) -> Result<bool> {
    if (!status) return status.error();
    return true;
  };
  if (SideStream* side = carrier_->side(rank_)) {
    // What takes its operand over moves nothing: that is done in the program's order.
    const bool is_put_aside = instruction.stream == Stream::communication && !instruction.takes_over();
    if (Status status = is_put_aside ? put_aside(instruction, *side) : wait_for(instruction, *side); !status) return status.error();
    if (Status status = carrier_->progress(rank_); !status) return status.error();
    if (is_put_aside) return true;
  }
  switch (instruction.kind()) {
    case InstructionKind::compute:
      return done(compute_op(instruction));
    case InstructionKind::move:
      return move(instruction);
    case InstructionKind::accumulate:
      return done(accumulate(instruction));
    case InstructionKind::carry:
      return done(take_over(instruction));
    case InstructionKind::update:
      return done(update(instruction));
    case InstructionKind::send:
      return done(send(instruction));
    case InstructionKind::receive:
      return receive(instruction);
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
    const Result<const Held*> held_value = held(operand.value);
    if (!held_value) return held_value.error();
    if ((*held_value)->storage.use_count() == 1) count(-(*held_value)->storage->type().bytes());
    value(operand.value) = {};
  }
  return Done{};
}

// The operand becomes the result.
Status Execution::take_over(const Instruction& instruction) {
  const std::int64_t microbatch = instruction.operands_from(microbatch_);
  const ProgramValueId from = instruction.operands[0].value;
  const Result<const Held*> there = held(from, microbatch);
  if (!there) return there.error();
  value(instruction.results[0]) = std::move(values_[program_.place(from, microbatch)]);
  values_[program_.place(from, microbatch)] = {};
  return Done{};
}

OpCall Execution::call_of(const Node& node, const Instruction& instruction) const {
  OpCall call{node, {}, {}};
  for (const ProgramOperand& operand : instruction.operands) call.operands.push_back(program_.local(operand.value));
  for (const ProgramValueId result : instruction.results) call.results.push_back(program_.local(result));
  return call;
}

Status Execution::make_views(const Instruction& instruction) {
  const Result<const Held*> seen = held(instruction.operands[0].value);
  if (!seen) return seen.error();
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    Held view = **seen;
    view.views.push_back({steps_[step_].instruction, i});
    value(instruction.results[i]) = std::move(view);
  }
  return Done{};
}

Status Execution::read_operands(const Instruction& instruction, OpCall& call, std::vector<Reading>& readings) const {
  const OpKernels* kernel = input_.kernels != nullptr ? input_.kernels->find(call.node.op) : nullptr;
  std::vector<bool> transposed;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const Result<const Held*> value = held(instruction.operands[i].value);
    if (!value) return value.error();
    const std::vector<Held::View>& views = (*value)->views;
    const bool is_transposed = !views.empty() && program_.instructions[views.back().instruction].compute()->transposes;
    transposed.push_back(is_transposed && kernel != nullptr && kernel->reads_transposed(call, i));
    Result<Reading> tensor = read(**value, views.size() - (transposed.back() ? 1 : 0));
    if (!tensor) return tensor.error();
    readings.push_back(std::move(*tensor));
  }
  if (std::ranges::find(transposed, true) != transposed.end()) call.transposed = std::move(transposed);
  return Done{};
}

Status Execution::compute_op(const Instruction& instruction) {
  if (!instruction.compute()->local) return bad_input("the program is not finished: this is on whole shapes");
  if (instruction.is_alias()) return make_views(instruction);
  const Node node = node_of(instruction, coordinates_);
  OpCall call = call_of(node, instruction);
  std::vector<Reading> readings;
  if (Status status = read_operands(instruction, call, readings); !status) return status;
  std::vector<const Tensor*> operands;
  for (const Reading& reading : readings) operands.push_back(&*reading);
  std::vector<Tensor> places;
  for (const ProgramValueId result : instruction.results) {
    places.push_back(placed(result, microbatch_));
    call.memory.push_back(places.back().bytes());
  }
  const Result<std::vector<Tensor>> results = compute(call, operands, input_.ops, input_.kernels);
  if (!results) return results.error();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if ((*results)[i].bytes().data() != places[i].bytes().data()) copy_elements((*results)[i], places[i]);
    keep(instruction.results[i], std::move(places[i]));
  }
  return Done{};
}

Result<bool> Execution::move(const Instruction& instruction) {
  const Result<Reading> source = read(instruction.operands[0].value);
  if (!source) return source.error();
  Tensor result = placed(instruction.results[0], microbatch_);
  std::ranges::fill(result.bytes(), std::byte{0});
  Result<bool> met = carrier_->move(rank_, step_, instruction, **source, result);
  if (met && *met) keep(instruction.results[0], std::move(result));
  return met;
}

Status Execution::send(const Instruction& instruction) {
  const Result<Reading> part = read(instruction.operands[0].value);
  if (!part) return part.error();
  return carrier_->send(rank_, microbatch_, *instruction.message(), program_.type(instruction.operands[0].value), **part);
}

Result<bool> Execution::receive(const Instruction& instruction) {
  const ProgramValueId id = instruction.results[0];
  Tensor result = placed(id, microbatch_);
  std::ranges::fill(result.bytes(), std::byte{0});
  const ShardedType& type = program_.type(id);
  Result<bool> there = carrier_->receive(rank_, step_, microbatch_, *instruction.message(), type, result);
  if (!there || !*there) return there;
  const Box here = box_of(type.layout, type.atoms, program_.mesh, coordinates_);
  received_bytes_ += intersect(here, whole_box(type.atoms.sizes)).elements() * size_bytes(type.type.dtype);
  keep(id, std::move(result));
  return true;
}

// What is there and what is held is told in the program's order, so that the peak is the same whenever the stream gets to it. What the instruction reads is read when its
// turn comes; until then nothing frees or changes it, as validate_finished proves.
Status Execution::put_aside(const Instruction& instruction, SideStream& side) {
  std::vector<Held> read_there;
  std::vector<const Tensor*> reads;
  for (const ProgramOperand& operand : instruction.operands) {
    const Result<const Held*> there = held(operand.value);
    if (!there) return there.error();
    read_there.push_back(**there);
    reads.push_back((*there)->storage.get());
  }
  const std::string what = describe(program_, steps_[step_]);
  const auto at_once = [](Status status) -> Result<SideStream::Task> {
    if (!status) return status.error();
    return SideStream::Task([]() -> Result<bool> { return true; });
  };
  switch (instruction.kind()) {
    case InstructionKind::accumulate:
      side.add(what, {reads[1]}, {reads[0]}, [this, at_once, read_there]() -> Result<SideStream::Task> {
        const Result<Reading> addend = read(read_there[1], read_there[1].views.size());
        if (!addend) return addend.error();
        return at_once(add(**addend, *read_there[0].storage));
      });
      return Done{};
    case InstructionKind::send:
      side.add(what, std::move(reads), {}, [this, at_once, read_there, &instruction, microbatch = microbatch_]() -> Result<SideStream::Task> {
        const Result<Reading> part = read(read_there[0], read_there[0].views.size());
        if (!part) return part.error();
        return at_once(carrier_->send(rank_, microbatch, *instruction.message(), program_.type(instruction.operands[0].value), **part));
      }, true);
      return Done{};
    case InstructionKind::move: {
      Tensor result = placed(instruction.results[0], microbatch_);
      std::ranges::fill(result.bytes(), std::byte{0});
      keep(instruction.results[0], std::move(result));
      const std::shared_ptr<Tensor> storage = value(instruction.results[0]).storage;
      side.add(what, std::move(reads), {storage.get()}, [this, read_there, storage, &instruction, step = step_]() -> Result<SideStream::Task> {
        Result<Reading> source = read(read_there[0], read_there[0].views.size());
        if (!source) return source.error();
        const auto kept = std::make_shared<const Reading>(std::move(*source));
        Result<SideStream::Task> task = carrier_->begin_move(rank_, step, instruction, **kept, *storage);
        if (!task) return task;
        return SideStream::Task([kept, storage, task = std::move(*task)] { return task(); });
      });
      return Done{};
    }
    default:
      return internal_error("nothing of this kind runs on the communication stream");
  }
}

Status Execution::wait_for(const Instruction& instruction, const SideStream& side) const {
  const std::int64_t microbatch = instruction.operands_from(microbatch_);
  const bool changes = instruction.kind() == InstructionKind::free || instruction.in_place();
  const auto storage = [&](ProgramValueId id) { return values_[program_.place(id, microbatch)].storage.get(); };
  return carrier_->wait_until(rank_, [&] {
    return std::ranges::none_of(instruction.waits, [&](ProgramValueId id) { return side.uses(storage(id)); }) &&
           std::ranges::none_of(instruction.operands, [&](const ProgramOperand& operand) { return changes ? side.uses(storage(operand.value)) : side.writes(storage(operand.value)); });
  });
}

Status Execution::update(const Instruction& instruction) {
  const ProgramParameter& parameter = program_.parameters[instruction.parameter];
  const Result<Reading> gradient = read(instruction.operands[0].value);
  if (!gradient) return gradient.error();
  const Result<const Held*> changed = held(instruction.operands.size() > 1 ? instruction.operands[1].value : parameter.value);
  if (!changed) return changed.error();
  Tensor& storage = *(*changed)->storage;
  Status status = take_step(program_.training.optimizer, input_.optimizer, **gradient, storage, states_[instruction.parameter]);
  if (status && observer_ != nullptr) observer_->on_update(rank_, instruction.parameter, **gradient, storage);
  return status;
}

Status Execution::add(const Tensor& addend, Tensor& sum) {
  const Combine add = combine_for(sum.type().dtype, false);
  if (add == nullptr) return bad_input("sums of " + to_string(sum.type()) + " are not computed");
  add(sum.bytes().data(), addend.bytes().data(), static_cast<std::size_t>(sum.elements()));
  return Done{};
}

Status Execution::accumulate(const Instruction& instruction) {
  if (instruction.takes_over()) return take_over(instruction);
  const Result<const Held*> held_sum = held(instruction.operands[0].value);
  if (!held_sum) return held_sum.error();
  const Result<Reading> addend = read(instruction.operands[1].value);
  if (!addend) return addend.error();
  return add(**addend, *(*held_sum)->storage);
}

Status Execution::give_outputs() {
  for (std::uint32_t i = 0; observer_ != nullptr && i < program_.parameters.size(); ++i) {
    if (program_.parameters[i].updated == kNoId) continue;
    const Result<Reading> tensor = read(program_.parameters[i].updated, program_.order.microbatches - 1);
    if (!tensor) return tensor.error();
    observer_->on_gathered(rank_, i, **tensor);
  }
  for (std::uint32_t i = 0; observer_ != nullptr && i < program_.outputs.size(); ++i) {
    const Result<Reading> tensor = read(program_.outputs[i].value, program_.outputs[i].microbatch);
    if (!tensor) return tensor.error();
    observer_->on_output(rank_, i, **tensor);
  }
  return Done{};
}

}  // namespace meshwright
