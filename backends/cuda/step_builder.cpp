#include "step_builder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "chains.h"
#include "converted.h"
#include "execution.h"
#include "kernels/optimizers.h"
#include "kernels/pointwise.h"
#include "rank.h"
#include "state_places.h"
#include "step_keeper.h"

namespace meshwright::cuda {

StepBuilder::StepBuilder(const BackendInput& input, const StageLinks& stage, const std::vector<Occurrence>& steps,
                         const Arena& arena, std::int64_t rank, const Block& block, ViewFinder& views,
                         LibraryPlans plans)
    : input_(input),
      stage_(stage),
      program_(input.program),
      steps_(steps),
      arena_(arena),
      rank_(rank),
      coordinates_(coordinates_of(program_.mesh, rank)),
      block_(block),
      views_(views),
      plans_(std::move(plans)),
      values_(program_.values.size() * static_cast<std::size_t>(program_.order.microbatches)) {}

Result<RankStep> StepBuilder::build() {
  for (const ProgramParameter& parameter : program_.parameters) {
    keep(parameter.value);
    count(optimizer_bytes(program_, parameter));
  }
  for (const ProgramInput& input : program_.inputs) {
    microbatch_ = input.microbatch;
    keep(input.value);
  }
  made_.numbers = made_.block.constant_bytes;
  made_.block.constant_bytes += aligned(program_.parameters.size() * sizeof(OptimizerNumbers));
  made_.fault_words = made_.block.constant_bytes;
  made_.constants.emplace_back(made_.fault_words, std::vector<std::byte>(steps_.size() * sizeof(std::int32_t)));
  made_.block.constant_bytes += aligned(made_.constants.back().second.size());
  made_.commands.resize(steps_.size());
  scratch_behind_.resize(steps_.size(), 0);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (Status status = build_instruction(i); !status)
      return add_context(describe(program_, steps_[i]), status.error());
  }
  stream_ = kCompute;
  if (Status status = fuse_kept_activations(); !status) return status.error();
  for (const ProgramOutput& output : program_.outputs) {
    if (Status status = hand_out(output.value, output.microbatch, made_); !status) return status.error();
  }
  for (const ProgramParameter& parameter : program_.parameters) {
    if (parameter.updated == kNoId) continue;
    if (Status status = hand_out(parameter.updated, program_.order.microbatches - 1, made_); !status)
      return status.error();
  }
  if (Status status = close(made_); !status) return status.error();
  made_.block = {block_.base,
                 aligned(static_cast<std::size_t>(arena_.bytes)),
                 state_bytes(program_),
                 made_.block.constant_bytes,
                 made_.block.beside_bytes,
                 {scratch_most_[0], scratch_most_[1]},
                 slot_bytes_};
  return std::move(made_);
}

void StepBuilder::count(std::int64_t bytes) {
  held_bytes_ += bytes;
  if (held_bytes_ <= made_.peak_bytes) return;
  made_.peak_bytes = held_bytes_;
  made_.peak_instruction = static_cast<std::int64_t>(steps_.empty() ? 0 : steps_[step_].instruction);
}

std::byte* StepBuilder::scratch(std::size_t bytes) {
  std::byte* memory = block_.scratch(stream_) + scratch_used_;
  scratch_used_ += aligned(bytes);
  std::size_t& most = scratch_most_[stream_];
  most = std::max(most, scratch_used_);
  return memory;
}

Seen StepBuilder::placed(ProgramValueId id) const {
  return seen_at(block_.base + arena_.offsets[program_.place(id, microbatch_)], program_.local(id));
}

void StepBuilder::keep(ProgramValueId id, const Seen& made) {
  count(made.type.bytes());
  value(id) = {std::make_shared<Storage>(Storage{.seen = made, .number = storages_++}), {}};
}

Result<StepBuilder::Held*> StepBuilder::held(ProgramValueId id, std::int64_t microbatch) {
  Held& found = values_[program_.place(id, microbatch)];
  if (!found.storage) return internal_error("value '" + program_.values[id].name + "' is not there");
  return &found;
}

Result<Seen> StepBuilder::read(ProgramValueId id, std::int64_t microbatch) {
  const Result<Held*> found = held(id, microbatch);
  if (!found) return found.error();
  ++(*found)->storage->reads;
  Seen seen = (*found)->storage->seen;
  for (const Held::View& view : (*found)->views) {
    const Instruction& instruction = program_.instructions[view.instruction];
    Result<std::optional<Seen>> through = see_through(instruction, seen, view.result);
    if (through && !*through) {  // as a reshape of what is transposed: of a copy it is a view
      Result<Seen> rows = copied_in_rows(seen);
      if (!rows) return rows;
      seen = std::move(*rows);
      through = see_through(instruction, seen, view.result);
    }
    if (!through) return through.error();
    if (!*through) return internal_error("'" + instruction.name + "' is no view of its operand");
    seen = std::move(**through);
  }
  return seen;
}

// Of most views it is known what they do; of others the family is asked, which looks at each element.
Result<std::optional<Seen>> StepBuilder::see_through(const Instruction& view, const Seen& operand, std::size_t result) {
  if (view.compute()->keeps_order) return reshaped(operand, program_.local(view.results[result]));
  if (view.compute()->transposes) return std::optional(transposed(operand, program_.local(view.results[result])));
  const Node node = node_of(view, coordinates_);
  return views_.find(operand, call_of(node, view), result);
}

Result<Seen> StepBuilder::read_in_rows(ProgramValueId id, std::int64_t microbatch) {
  Result<Seen> seen = read(id, microbatch);
  return !seen || seen->is_contiguous() ? seen : copied_in_rows(*seen);
}

Result<Seen> StepBuilder::copied_in_rows(const Seen& seen) {
  const Seen rows = seen_at(scratch(static_cast<std::size_t>(seen.type.bytes())), seen.type);
  const Node none;
  const auto copy = [&](OpWriter& writer) { return writer.copy(seen, rows); };
  if (Status status = with_writer({none, {}, {}}, {seen}, {rows}, copy); !status) return status.error();
  return rows;
}

OpCall StepBuilder::call_of(const Node& node, const Instruction& instruction) const {
  OpCall call{node, {}, {}};
  for (const ProgramOperand& operand : instruction.operands) call.operands.push_back(program_.local(operand.value));
  for (const ProgramValueId result : instruction.results) call.results.push_back(program_.local(result));
  return call;
}

Status StepBuilder::with_writer(const OpCall& call, std::vector<Seen> operands, std::vector<Seen> results,
                                const std::function<Status(OpWriter&)>& write) {
  std::vector<Work> written;
  OpWriter writer(
      call, views_, plans_, std::move(operands), std::move(results),
      [this](std::size_t bytes) { return scratch(bytes); }, written);
  writer.fault_word = reinterpret_cast<std::int32_t*>(block_.constants() + made_.fault_words) + made_.faults.size();
  Status status = write(writer);
  if (writer.may_fault) made_.faults.push_back(step_);
  for (Work& work : written) std::visit([this](auto& each) { add(std::move(each)); }, work);
  return status;
}

// A chain that goes on runs where it ends: nothing is between.
void StepBuilder::add_on(StreamNumber stream, Command::What what) {
  auto* launch = std::get_if<Launch>(&what);
  const bool is_chain = launch != nullptr && launch->kernel == KernelId::chain;
  if (is_chain && chain_ != nullptr && chain_->back().stream == stream) {
    if (std::optional<Launch> both = joined(std::get<Launch>(chain_->back().what), *launch)) {
      chain_->pop_back();
      what = std::move(*both);
    }
  } else if (is_chain && stream == kCompute && commands_ == &made_.commands[step_] && commands_->empty()) {
    join_with_earlier(*launch);
  }
  commands_->push_back({stream, std::move(what)});
  chain_ = is_chain ? commands_ : nullptr;
}

Status StepBuilder::build_instruction(std::size_t step) {
  step_ = step;
  microbatch_ = steps_[step].microbatch;
  commands_ = &made_.commands[step];
  scratch_used_ = 0;
  const Instruction& instruction = program_.instructions[steps_[step].instruction];
  for (const ProgramValueId result : instruction.results) {
    if (arena_.offsets[program_.place(result, microbatch_)] == Arena::kNone)
      return bad_input("'" + program_.values[result].name + "' was freed before it is made");
  }
  // What takes its operand over moves nothing.
  const bool is_aside = instruction.stream == meshwright::Stream::communication && !instruction.takes_over();
  stream_ = is_aside ? kCommunication : kCompute;
  if (is_aside)
    begin_aside();
  else
    wait_for(instruction);
  const auto act = [&]() -> Status {
    switch (instruction.kind()) {
      case InstructionKind::compute:
        return compute(instruction);
      case InstructionKind::move:
        return move(instruction);
      case InstructionKind::accumulate:
        return instruction.takes_over() ? take_over(instruction) : accumulate(instruction);
      case InstructionKind::carry:
        return take_over(instruction);
      case InstructionKind::update:
        return update(instruction);
      case InstructionKind::free:
        return drop(instruction);
      case InstructionKind::send:
        return send(instruction);
      case InstructionKind::receive:
        return receive(instruction);
      case InstructionKind::convert:
      case InstructionKind::load_parameter:
      case InstructionKind::store_gradient:
        break;
    }
    return bad_input("the program is not finished; run all passes before it");
  };
  if (Status status = act(); !status) return status;
  scratch_behind_[step] = scratch_used_;
  if (is_aside)
    end_aside(instruction);
  else if (!commands_->empty())
    computes_since_ = true;
  return Done{};
}

// It begins when all that stands before it on the compute stream is done.
void StepBuilder::begin_aside() {
  if (!computes_since_) return;
  const std::size_t event = made_.events++;
  add_on(kCompute, Record{event});
  add_on(kCommunication, Await{event});
  computes_since_ = false;
}

void StepBuilder::end_aside(const Instruction& instruction) {
  const std::size_t event = made_.events++;
  add(Record{event});
  for (const ProgramOperand& operand : instruction.operands) value(operand.value).storage->used_aside = event;
  for (const ProgramValueId result : instruction.results) value(result).storage->used_aside = event;
}

// Events of the communication stream are recorded in the order of their numbers, so that to wait for one is to wait for
// those before it.
void StepBuilder::wait_for(const Instruction& instruction) {
  for (const ProgramValueId id : instruction.waits) {
    const std::shared_ptr<Storage>& storage =
        values_[program_.place(id, instruction.operands_from(microbatch_))].storage;
    if (!storage || !storage->used_aside || (waited_for_ && *waited_for_ >= *storage->used_aside)) continue;
    waited_for_ = storage->used_aside;
    add(Await{*waited_for_});
  }
}

Status StepBuilder::compute(const Instruction& instruction) {
  if (!instruction.compute()->local) return bad_input("the program is not finished: this is on whole shapes");
  if (instruction.is_alias()) {
    const Result<Held*> seen = held(instruction.operands[0].value, microbatch_);
    if (!seen) return seen.error();
    const Held base = **seen;
    for (std::size_t i = 0; i < instruction.results.size(); ++i) {
      Held view = base;
      view.views.push_back({steps_[step_].instruction, i});
      value(instruction.results[i]) = std::move(view);
    }
    return Done{};
  }
  const Node node = node_of(instruction, coordinates_);
  const OpCall call = call_of(node, instruction);
  if (instruction.operands.empty()) return compute_constant(instruction, call);
  const WriteOp write = find_op(node.op);
  if (write == nullptr)
    return bad_input("cuda has no kernel for " + node.op + "; run the plan with --backend reference or mpi");
  std::vector<Seen> operands, results;
  for (const ProgramOperand& operand : instruction.operands) {
    Result<Seen> seen = read(operand.value);
    if (!seen) return seen.error();
    operands.push_back(std::move(*seen));
  }
  for (const ProgramValueId result : instruction.results) results.push_back(placed(result));
  std::vector<Seen> made;
  CallKeeper keeper(*this, instruction, operands);
  const auto write_and_see = [&](OpWriter& writer) {
    if (stream_ == kCompute) writer.keeper = &keeper;
    Status status = write(writer);
    made = writer.results;
    return status;
  };
  if (Status status = with_writer(call, operands, std::move(results), write_and_see); !status) return status;
  for (std::size_t i = 0; i < made.size(); ++i) keep(instruction.results[i], made[i]);
  keeper.close();
  return Done{};
}

// Its result is the same in every step: it is found once, on the host, and copied from there on.
Status StepBuilder::compute_constant(const Instruction& instruction, const OpCall& call) {
  OpCall on_host = call;
  for (TensorType& type : on_host.results) type = handed_type(type);
  const Result<std::vector<Tensor>> results = meshwright::compute(on_host, {}, input_.ops, nullptr);
  if (!results) return results.error();
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    const Tensor result = converted((*results)[i], call.results[i].dtype);
    const std::span<const std::byte> bytes = result.bytes();
    const std::size_t place = made_.block.constant_bytes;
    made_.constants.emplace_back(place, std::vector<std::byte>(bytes.begin(), bytes.end()));
    made_.block.constant_bytes += aligned(bytes.size());
    const Seen from = seen_at(block_.constants() + place, call.results[i]), to = placed(instruction.results[i]);
    if (Status status = with_writer(call, {from}, {to}, [&](OpWriter& writer) { return writer.copy(from, to); });
        !status)
      return status;
    keep(instruction.results[i]);
  }
  return Done{};
}

Status StepBuilder::accumulate(const Instruction& instruction) {
  const Result<Held*> sum = held(instruction.operands[0].value, microbatch_);
  const Result<Seen> addend = read(instruction.operands[1].value);
  if (!sum) return sum.error();
  ++(*sum)->storage->reads;
  if (!addend) return addend.error();
  const Seen place = (*sum)->storage->seen;
  const Node none;
  if (Status status =
          with_writer({none, {}, {}}, {*addend}, {place},
                      [&](OpWriter& writer) { return combine_into(writer, Function::add, *addend, place); });
      !status)
    return status;
  if (!instruction.results.empty()) value(instruction.results[0]) = **sum;
  return Done{};
}

Status StepBuilder::take_over(const Instruction& instruction) {
  const std::int64_t from = instruction.operands_from(microbatch_);
  const Result<Held*> there = held(instruction.operands[0].value, from);
  if (!there) return there.error();
  value(instruction.results[0]) = std::exchange(**there, Held{});
  return Done{};
}

Status StepBuilder::drop(const Instruction& instruction) {
  for (const ProgramOperand& operand : instruction.operands) {
    const Result<Held*> there = held(operand.value, microbatch_);
    if (!there) return there.error();
    const std::shared_ptr<Storage> storage = std::exchange(**there, Held{}).storage;
    if (storage.use_count() > 1) continue;
    for (const Beside& beside : storage->beside) free_beside_[beside.bytes].push_back(beside.memory);
    count(-storage->seen.type.bytes());
    if (chain_ == nullptr) continue;
    Launch& chain = std::get<Launch>(chain_->back().what);
    if (storage->reads != reads_within(chain, storage->seen.data)) continue;
    keep_in_registers(chain, storage->seen.data);
    if (storage->reads != 1) continue;
    const auto chained = static_cast<std::size_t>(chain_ - made_.commands.data());
    if (Status status = fuse_into_product(chained, storage->seen.data); !status) return status;
  }
  return Done{};
}

Status StepBuilder::update(const Instruction& instruction) {
  const ProgramParameter& parameter = program_.parameters[instruction.parameter];
  const Result<Seen> gradient = read_in_rows(instruction.operands[0].value, microbatch_);
  if (!gradient) return gradient.error();
  const ProgramValueId changed = instruction.operands.size() > 1 ? instruction.operands[1].value : parameter.value;
  const Result<Held*> there = held(changed, microbatch_);
  if (!there) return there.error();
  const Seen place = (*there)->storage->seen;
  const StatePlace state = state_place(program_, block_, instruction.parameter);
  const Result<Element> element = element_for(place.type.dtype), of_gradient = element_for(gradient->type.dtype),
                        kept = element_for(state.type.dtype);
  for (const Result<Element>* each : {&element, &of_gradient, &kept}) {
    if (!*each) return each->error();
  }
  if (gradient->type.shape != place.type.shape || !is_floating(place.type.dtype)) {
    return bad_input("a parameter of type " + to_string(place.type) + " has a gradient of type " +
                     to_string(gradient->type) + "; the optimizer's step is of floating-point numbers of one shape");
  }
  const Optimizer optimizer = program_.training.optimizer;
  const bool is_adam = optimizer == Optimizer::adam || optimizer == Optimizer::adamw;
  OptimizerArguments arguments;
  arguments.kind = is_adam                            ? OptimizerKind::adam
                   : optimizer == Optimizer::momentum ? OptimizerKind::momentum
                                                      : OptimizerKind::sgd;
  arguments.element = *element;
  arguments.of_gradient = *of_gradient;
  arguments.kept = *kept;
  arguments.gradient = gradient->data;
  arguments.parameter = place.data;
  arguments.master = state.master;
  arguments.first = state.first;
  arguments.second = state.second;
  const std::byte* numbers = block_.constants() + made_.numbers + instruction.parameter * sizeof(OptimizerNumbers);
  arguments.numbers = reinterpret_cast<const OptimizerNumbers*>(numbers);
  const OptimizerSettings& settings = input_.optimizer;
  arguments.momentum = settings.momentum;
  arguments.beta1 = settings.beta1;
  arguments.beta2 = settings.beta2;
  arguments.epsilon = settings.epsilon;
  if (optimizer == Optimizer::adamw) arguments.decay = 1 - settings.learning_rate * settings.weight_decay;
  Launch launch{KernelId::optimize,
                std::vector<std::byte>(sizeof arguments),
                place.type.elements(),
                {gradient->range(), {numbers, sizeof(OptimizerNumbers)}},
                {place.range()}};
  for (const std::byte* each : {state.master, state.first, state.second}) {
    if (each != nullptr) launch.writes.push_back({each, static_cast<std::size_t>(state.type.bytes())});
  }
  std::memcpy(launch.arguments.data(), &arguments, sizeof arguments);
  const Seen updated = state.master != nullptr ? seen_at(state.master, state.type) : place;
  if (place.type.elements() == 0) return Done{};
  add(Optimize{instruction.parameter, std::move(launch), *gradient, updated});
  made_.updated.push_back(instruction.parameter);
  return Done{};
}

Status StepBuilder::hand_out(ProgramValueId id, std::int64_t microbatch, RankStep& made) {
  Handed handed;
  commands_ = &handed.commands;
  chain_ = nullptr;
  scratch_used_ = 0;
  Result<Seen> seen = read_in_rows(id, microbatch);
  if (!seen) return seen.error();
  handed.seen = std::move(*seen);
  made.handed.insert_or_assign({id, microbatch}, std::move(handed));
  return Done{};
}

// Parameters that lie elsewhere go back to where they were: all are copied first, since where one has to go another one
// may lie.
Status StepBuilder::close(RankStep& made) {
  commands_ = &made.closing;
  chain_ = nullptr;
  scratch_used_ = 0;
  microbatch_ = 0;
  std::vector<std::pair<Seen, Seen>> back;
  const Node none;
  for (const ProgramParameter& parameter : program_.parameters) {
    if (parameter.updated == kNoId) continue;
    const Seen to = placed(parameter.value);
    const Result<Seen> from = read(parameter.updated, program_.order.microbatches - 1);
    if (!from) return from.error();
    if (from->data == to.data && from->is_contiguous()) continue;
    const Seen between = seen_at(scratch(static_cast<std::size_t>(to.type.bytes())), to.type);
    if (Status status = with_writer({none, {}, {}}, {*from}, {between},
                                    [&](OpWriter& writer) { return writer.copy(*from, between); });
        !status)
      return status;
    back.emplace_back(between, to);
  }
  for (const auto& each : back) {
    const auto copy = [&](OpWriter& writer) { return writer.copy(each.first, each.second); };
    if (Status status = with_writer({none, {}, {}}, {each.first}, {each.second}, copy); !status) return status;
  }
  return Done{};
}

void collect_groups(const RankStep& step, std::set<GroupKey>& groups) {
  for (const std::vector<Command>& commands : step.commands) {
    for (const Command& command : commands) {
      if (const auto* collective = std::get_if<Collective>(&command.what)) groups.insert(collective->group);
      if (const auto* exchange = std::get_if<Exchange>(&command.what)) groups.insert(exchange->group);
    }
  }
}

}  // namespace meshwright::cuda
