#include "runtime.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace meshwright {

std::vector<const Program*> Stages::programs() const {
  std::vector<const Program*> programs;
  for (const StageRanks& stage : ranks) programs.push_back(&stage.program());
  return programs;
}

std::vector<Turn> turns_of(const Stages& stages, std::size_t group) {
  std::vector<Turn> turns;
  for (std::size_t stage = 0; stage < stages.ranks.size(); ++stage) {
    if (stages.group_of[stage] != group) continue;
    for (std::size_t i = 0; i < stages.order[stage].size(); ++i) turns.push_back({stages.order[stage][i], stage, i});
  }
  std::ranges::sort(turns, {}, &Turn::place);
  return turns;
}

std::string rank_name(const Stages& stages, std::size_t stage, std::int64_t rank) {
  return (stages.ranks.size() > 1 ? "stage " + std::to_string(stage) + ", " : "") + "rank " + std::to_string(rank);
}

namespace {

// What both executables do.
class Training {
 public:
  // `group_of` and `order` by stage.
  Training(std::unique_ptr<Runtime> runtime, const std::vector<BackendInput>& inputs, std::vector<std::uint32_t> group_of, JointOrder order) : runtime_(std::move(runtime)) {
    stages_.group_of = std::move(group_of);
    stages_.order = std::move(order);
    stages_.groups.resize(1 + *std::ranges::max_element(stages_.group_of));
    for (std::size_t s = 0; s < inputs.size(); ++s) stages_.groups[stages_.group_of[s]].devices = inputs[s].program.mesh.devices();
    std::int64_t first = 0;
    for (DeviceGroup& group : stages_.groups) {
      group.first = first;
      first += group.devices;
      runtime_->place(group);
    }
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      DeviceGroup& group = stages_.groups[stages_.group_of[s]];
      stages_.ranks.emplace_back(inputs[s], group.first_here, group.here, runtime_->parts_of_all(group), runtime_->make_rank());
    }
  }

  [[nodiscard]] std::size_t stages() const { return stages_.ranks.size(); }

  Status load(const std::vector<TensorSource>& sources, const std::vector<StateSource>& states) {
    for (DeviceGroup& group : stages_.groups) std::ranges::fill(group.here, DeviceBytes());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const Status status = stages_.ranks[s].load(sources[s], states.empty() ? StateSource() : states[s]);
      if (!status) return stages() > 1 ? add_context("stage " + std::to_string(s), status.error()) : status.error();
    }
    return Done{};
  }

  Result<Report> step(const std::vector<TensorSource>& sources, const std::vector<RunObserver*>& observers) {
    std::vector<std::vector<const Tensor*>> inputs;
    for (std::size_t s = 0; s < stages(); ++s) {
      Result<std::vector<const Tensor*>> here = stages_.ranks[s].begin(sources[s]);
      if (!here) return here.error();
      inputs.push_back(std::move(*here));
    }
    Result<Report> report = runtime_->run(stages_, inputs, observers);
    if (!report) return report;
    for (StageRanks& stage : stages_.ranks) {
      if (Status status = runtime_->ended(stage.end()); !status) return status.error();
    }
    return report;
  }

  [[nodiscard]] Result<Tensor> fetch(std::size_t stage, ValueId source) const {
    const StageRanks& ranks = stages_.ranks[stage];
    return runtime_->told(group_of(stage), ranks.has_ranks() ? ranks.fetch(source) : Result<Tensor>(Tensor()));
  }

  [[nodiscard]] Result<OptimizerState> fetch_state(std::size_t stage, ValueId parameter) const {
    const StageRanks& ranks = stages_.ranks[stage];
    Result<OptimizerState> state = ranks.has_ranks() ? ranks.fetch_state(parameter) : Result<OptimizerState>(OptimizerState());
    if (!state) return state;
    Result<Tensor> first = runtime_->told(group_of(stage), std::move(state->first)), second = runtime_->told(group_of(stage), std::move(state->second));
    if (!first) return first.error();
    if (!second) return second.error();
    return OptimizerState{runtime_->largest(state->steps), std::move(*first), std::move(*second)};
  }

  [[nodiscard]] std::vector<std::int64_t> peak_bytes() const {
    std::vector<std::int64_t> peaks;
    for (const DeviceGroup& group : stages_.groups) {
      std::int64_t most = 0;
      for (const DeviceBytes& device : group.here) most = std::max(most, device.most);
      peaks.push_back(runtime_->largest(most));
    }
    return peaks;
  }

 private:
  [[nodiscard]] const DeviceGroup& group_of(std::size_t stage) const { return stages_.groups[stages_.group_of[stage]]; }

  const std::unique_ptr<Runtime> runtime_;
  Stages stages_;
};

class WholeExecutable final : public Executable {
 public:
  WholeExecutable(std::unique_ptr<Runtime> runtime, const BackendInput& input, std::vector<std::size_t> places) : training_(std::move(runtime), {input}, {0}, {std::move(places)}) {}

 private:
  Status do_load(const TensorSource& source, const StateSource& states) override { return training_.load({source}, {states}); }
  Result<Report> do_step(const TensorSource& source, RunObserver* observer) override { return training_.step({source}, {observer}); }
  Result<Tensor> do_fetch(ValueId source) const override { return training_.fetch(0, source); }
  Result<OptimizerState> do_fetch_state(ValueId parameter) const override { return training_.fetch_state(0, parameter); }

  Training training_;
};

class PipelineExecutable final : public StagesExecutable {
 public:
  PipelineExecutable(std::unique_ptr<Runtime> runtime, const std::vector<BackendInput>& stages, std::vector<std::uint32_t> group_of, JointOrder order)
      : training_(std::move(runtime), stages, std::move(group_of), std::move(order)) {}

 private:
  Status check(std::size_t given, const char* what) const {
    if (given == training_.stages()) return Done{};
    return bad_input("there are " + std::to_string(training_.stages()) + " stages, and " + what + " for " + std::to_string(given));
  }
  Status check(std::size_t stage) const {
    if (stage < training_.stages()) return Done{};
    return bad_input("there is no stage " + std::to_string(stage));
  }

  Status do_load(const std::vector<TensorSource>& sources, const std::vector<StateSource>& states) override {
    if (Status status = check(sources.size(), "tensors"); !status) return status;
    if (Status status = check(states.empty() ? training_.stages() : states.size(), "states"); !status) return status;
    return training_.load(sources, states);
  }

  Result<Report> do_step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers) override {
    if (Status status = check(inputs.size(), "tensors"); !status) return status.error();
    std::vector<RunObserver*> all = observers;
    all.resize(inputs.size(), nullptr);
    return training_.step(inputs, all);
  }

  Result<Tensor> do_fetch(std::size_t stage, ValueId source) const override {
    if (Status status = check(stage); !status) return status.error();
    return training_.fetch(stage, source);
  }

  Result<OptimizerState> do_fetch_state(std::size_t stage, ValueId parameter) const override {
    if (Status status = check(stage); !status) return status.error();
    return training_.fetch_state(stage, parameter);
  }

  [[nodiscard]] std::vector<std::int64_t> do_peak_bytes() const override { return training_.peak_bytes(); }

  Training training_;
};

}  // namespace

std::unique_ptr<Executable> compile_on(std::unique_ptr<Runtime> runtime, const BackendInput& input) {
  std::vector<std::size_t> places(occurrences(input.program).size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return std::make_unique<WholeExecutable>(std::move(runtime), input, std::move(places));
}

Result<std::unique_ptr<StagesExecutable>> compile_on(std::unique_ptr<Runtime> runtime, const std::vector<BackendInput>& stages, const GroupOrders& orders) {
  std::vector<Program> programs;
  for (const BackendInput& stage : stages) programs.push_back(stage.program);
  Result<JointOrder> order = joint_order(programs, orders);
  if (!order) return order.error();
  std::vector<std::uint32_t> group_of = groups_of_stages(orders, stages.size()).value();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto other = static_cast<std::size_t>(std::ranges::find(group_of, group_of[s]) - group_of.begin());
    if (programs[s].mesh.devices() == programs[other].mesh.devices()) continue;
    return bad_input("stages " + std::to_string(other) + " and " + std::to_string(s) + " share devices, but one has " + std::to_string(programs[other].mesh.devices()) + " and the other " +
                     std::to_string(programs[s].mesh.devices()));
  }
  return std::unique_ptr<StagesExecutable>(std::make_unique<PipelineExecutable>(std::move(runtime), stages, std::move(group_of), std::move(*order)));
}

}  // namespace meshwright
