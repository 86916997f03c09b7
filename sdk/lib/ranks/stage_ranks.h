// The ranks of one stage of a pipeline, or of a whole model, and what they keep from step to step. Some or all of them are in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "meshwright/arena.h"
#include "meshwright/backend.h"
#include "meshwright/executable.h"
#include "rank.h"

namespace meshwright {

// The parts that all ranks of a stage have of a tensor, in the order of the ranks, from the part of the one rank that is in this process; all parts are alike in size.
// Whoever of the stage's ranks calls it waits for the others.
using PartsOfAll = std::function<Result<std::vector<Tensor>>(const Tensor& own)>;

class StageRanks {
 public:
  // Here are the ranks from `first` on, one for each of `devices`, which outlive this. `parts_of_all`: needed where these are not all.
  StageRanks(const BackendInput& input, std::int64_t first, std::span<DeviceBytes> devices, PartsOfAll parts_of_all = {}, const MakeRank& make_rank = {});

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<Occurrence>& steps() const { return steps_; }
  [[nodiscard]] std::int64_t arena_bytes() const { return arena_.bytes; }
  [[nodiscard]] bool is_here(std::int64_t rank) const { return rank >= first_ && rank < first_ + std::ssize(ranks_); }
  [[nodiscard]] bool has_ranks() const { return !ranks_.empty(); }
  // One that is here.
  [[nodiscard]] Rank& rank(std::int64_t rank) { return *ranks_[static_cast<std::size_t>(rank - first_)]; }
  [[nodiscard]] const Rank& rank(std::int64_t rank) const { return *ranks_[static_cast<std::size_t>(rank - first_)]; }

  // Tensors are given and fetched as `handed_type` says (rank.h). Errors: as Executable::load.
  Status load(const TensorSource& source, const StateSource& states);
  // What a step begins with, by input of the program; until `end` it has to be loaded anew. Errors: as Executable::step.
  Result<std::vector<const Tensor*>> begin(const TensorSource& source);
  // The mean of the microbatches' losses, before the step ends; none if the first rank is not here, or the stage yields none.
  [[nodiscard]] Result<std::optional<double>> loss() const;
  Status end();
  // Errors: as Executable::fetch.
  [[nodiscard]] Result<Tensor> fetch(ValueId source) const;
  [[nodiscard]] Result<OptimizerState> fetch_state(ValueId parameter) const;

 private:
  Result<const Tensor*> whole(const TensorSource& source, ValueId id, ProgramValueId value, std::int64_t microbatch) const;
  [[nodiscard]] Status check_state(const ProgramParameter& parameter, const OptimizerState& state) const;
  Status keep_buffers();
  [[nodiscard]] Result<Tensor> joined(ProgramValueId id, std::int64_t microbatch) const;
  [[nodiscard]] Result<Tensor> fetch_parameter(std::size_t number) const;
  // Of what the optimizer keeps of a parameter.
  [[nodiscard]] ShardedType state_type(const ProgramParameter& parameter) const;
  // A tensor from the parts of those ranks that are here, and of all others.
  [[nodiscard]] Result<Tensor> joined(const ShardedType& type, const std::vector<Tensor>& parts) const;

  const BackendInput input_;
  const Program& program_;
  const std::vector<Occurrence> steps_;
  const Arena arena_;
  const std::int64_t first_;
  const PartsOfAll parts_of_all_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<ValueId, Tensor> resident_;  // buffers and constants, whole
  bool loaded_ = false;
};

}  // namespace meshwright
