#include "stage_ranks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "execution.h"

namespace meshwright {

StageRanks::StageRanks(const BackendInput& input, std::int64_t first, std::span<DeviceBytes> devices, PartsOfAll parts_of_all, const MakeRank& make_rank)
    : input_(input), program_(input.program), steps_(occurrences(program_)), arena_(make_arena(program_)), first_(first), parts_of_all_(std::move(parts_of_all)) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const RankInput rank{input_, steps_, arena_, first_ + static_cast<std::int64_t>(i), devices[i]};
    ranks_.push_back(make_rank ? make_rank(rank) : std::make_unique<Execution>(rank));
  }
}

Status StageRanks::load(const TensorSource& source, const StateSource& states) {
  loaded_ = false;
  std::vector<const Tensor*> parameters;
  std::vector<const OptimizerState*> of_parameters;
  for (const ProgramParameter& parameter : program_.parameters) {
    Result<const Tensor*> tensor = whole(source, parameter.source, parameter.value, 0);
    if (!tensor) return tensor.error();
    parameters.push_back(*tensor);
    const OptimizerState* state = states ? states(parameter.source) : nullptr;
    if (state != nullptr) {
      if (Status status = check_state(parameter, *state); !status) return status;
    }
    of_parameters.push_back(state);
  }
  resident_.clear();
  for (const ProgramInput& input : program_.inputs) {
    if (input.kind == SourceKind::user_input || resident_.contains(input.source)) continue;
    Result<const Tensor*> tensor = whole(source, input.source, input.value, 0);
    if (!tensor) return tensor.error();
    resident_.emplace(input.source, **tensor);
  }
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    if (Status status = rank->load(parameters, of_parameters); !status) return status;
  }
  loaded_ = true;
  return Done{};
}

Result<std::vector<const Tensor*>> StageRanks::begin(const TensorSource& source) {
  if (!loaded_) return bad_input("the program has to be loaded before it takes a step");
  std::vector<const Tensor*> inputs;
  for (const ProgramInput& input : program_.inputs) {
    const auto resident = resident_.find(input.source);
    Result<const Tensor*> tensor = resident != resident_.end() ? &resident->second : whole(source, input.source, input.value, input.microbatch);
    if (!tensor) return tensor.error();
    inputs.push_back(*tensor);
  }
  loaded_ = false;
  return inputs;
}

Result<std::optional<double>> StageRanks::loss() const {
  std::optional<double> sum;
  for (const ProgramOutput& output : program_.outputs) {
    if (output.kind != OutputKind::loss || !is_here(0)) continue;
    const Result<Tensor> loss = rank(0).part(output.value, output.microbatch);
    if (!loss) return loss.error();
    sum = sum.value_or(0) + loss->get(0) / static_cast<double>(program_.training.microbatches);
  }
  return sum;
}

Status StageRanks::end() {
  if (has_ranks()) {
    if (Status status = keep_buffers(); !status) return status.error();
  }
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    if (Status status = rank->end(); !status) return status;
  }
  loaded_ = true;
  return Done{};
}

Result<Tensor> StageRanks::fetch(ValueId source) const {
  if (!loaded_) return bad_input("the program has to be loaded before anything is fetched from it");
  for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
    if (program_.parameters[i].source == source) return fetch_parameter(i);
  }
  const auto resident = resident_.find(source);
  if (resident == resident_.end()) return bad_input("only parameters, buffers and constants of the program can be fetched");
  return resident->second;
}

Result<OptimizerState> StageRanks::fetch_state(ValueId parameter) const {
  if (!loaded_) return bad_input("the program has to be loaded before anything is fetched from it");
  const auto found = std::ranges::find(program_.parameters, parameter, &ProgramParameter::source);
  if (found == program_.parameters.end()) return bad_input("the optimizer keeps something of parameters of the program only");
  const auto number = static_cast<std::size_t>(found - program_.parameters.begin());
  const ShardedType type = state_type(*found);
  std::vector<OptimizerState> states;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    Result<OptimizerState> state = rank->state(number);
    if (!state) return state;
    states.push_back(std::move(*state));
  }
  const auto join = [&](Tensor OptimizerState::*moment) -> Result<Tensor> {
    std::vector<Tensor> parts;
    for (OptimizerState& state : states) parts.push_back(std::move(state.*moment));
    if (parts.front().shape().empty() && parts.front().bytes().empty()) return Tensor();  // on all ranks alike
    return joined(type, parts);
  };
  Result<Tensor> first = join(&OptimizerState::first), second = join(&OptimizerState::second);
  if (!first) return first.error();
  if (!second) return second.error();
  return OptimizerState{states.front().steps, std::move(*first), std::move(*second)};
}

// The optimizer's copy, where it has one.
Result<Tensor> StageRanks::fetch_parameter(std::size_t number) const {
  const ProgramParameter& parameter = program_.parameters[number];
  std::vector<Tensor> parts;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    Result<std::optional<Tensor>> part = rank->master(number);
    if (!part) return part.error();
    if (!*part) return joined(parameter.value, 0);  // on all ranks alike
    parts.push_back(std::move(**part));
  }
  return joined(state_type(parameter), parts);
}

ShardedType StageRanks::state_type(const ProgramParameter& parameter) const {
  ShardedType type = program_.type(parameter.value);
  type.layout = parameter.state;
  return type;
}

// The whole tensor of a value of the program.
Result<const Tensor*> StageRanks::whole(const TensorSource& source, ValueId id, ProgramValueId value, std::int64_t microbatch) const {
  const std::string& name = program_.values[value].name;
  const Tensor* tensor = source ? source(id, microbatch) : nullptr;
  if (tensor == nullptr) return bad_input("there is no tensor for '" + name + "'");
  const TensorType type = handed_type(program_.type(value).type);
  if (tensor->type() == type) return tensor;
  return bad_input("'" + name + "' is " + to_string(type) + ", but the tensor given for it is " + to_string(tensor->type()));
}

Status StageRanks::check_state(const ProgramParameter& parameter, const OptimizerState& state) const {
  const Optimizer optimizer = program_.training.optimizer;
  const bool taken = state.steps > 0;
  const bool has_first = taken && optimizer != Optimizer::sgd, has_second = taken && (optimizer == Optimizer::adam || optimizer == Optimizer::adamw);
  const TensorType type = handed_type(program_.type(parameter.value).type);
  const auto fits = [&](const Tensor& tensor, bool is_kept) { return is_kept ? tensor.type() == type : tensor.bytes().empty(); };
  if (state.steps >= 0 && fits(state.first, has_first) && fits(state.second, has_second)) return Done{};
  return bad_input("the state given for '" + parameter.name + "' is not what the optimizer keeps of it");
}

// What the step left in buffers is what the next one finds.
Status StageRanks::keep_buffers() {
  for (const ProgramOutput& output : program_.outputs) {
    if (output.buffer == kNoId) continue;
    Result<Tensor> whole = joined(output.value, output.microbatch);
    if (!whole) return whole.error();
    resident_.insert_or_assign(output.buffer, std::move(*whole));
  }
  return Done{};
}

Result<Tensor> StageRanks::joined(ProgramValueId id, std::int64_t microbatch) const {
  std::vector<Tensor> parts;
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    Result<Tensor> part = rank->part(id, microbatch);
    if (!part) return part.error();
    parts.push_back(std::move(*part));
  }
  return joined(program_.type(id), parts);
}

Result<Tensor> StageRanks::joined(const ShardedType& type, const std::vector<Tensor>& parts) const {
  Result<std::vector<Tensor>> gathered = std::vector<Tensor>();
  if (parts_of_all_) gathered = parts_of_all_(parts.front());
  if (!gathered) return gathered.error();
  const std::vector<Tensor>& all = parts_of_all_ ? *gathered : parts;
  Tensor whole(handed_type(type.type));
  for (std::size_t rank = 0; rank < all.size(); ++rank) paste(all[rank], type, program_.mesh, coordinates_of(program_.mesh, static_cast<std::int64_t>(rank)), whole);
  return whole;
}

}  // namespace meshwright
