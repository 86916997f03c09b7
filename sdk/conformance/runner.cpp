#include "runner.h"

#include <map>
#include <string_view>
#include <utility>

namespace meshwright {

std::vector<ValueId> values_in_model(const Graph& model, const Graph& stage) {
  std::map<std::string_view, ValueId> named;
  for (ValueId id = 0; id < model.values.size(); ++id) named.emplace(model.values[id].name, id);
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < stage.values.size(); ++id) ids.push_back(&stage == &model ? id : named.at(stage.values[id].name));
  return ids;
}

Result<Runner> Runner::compile(const Backend& backend, std::vector<Part> parts, const GroupOrders& orders, bool is_whole) {
  Runner runner;
  runner.parts_ = std::move(parts);
  if (is_whole) {
    Result<std::unique_ptr<Executable>> made = backend.compile(runner.parts_.front().input);
    if (!made) return made.error();
    runner.whole_ = std::move(*made);
    return runner;
  }
  std::vector<BackendInput> inputs;
  for (const Part& part : runner.parts_) inputs.push_back(part.input);
  Result<std::unique_ptr<StagesExecutable>> made = backend.compile_stages(inputs, orders);
  if (!made) return made.error();
  runner.stages_ = std::move(*made);
  return runner;
}

Status Runner::load(const TensorSource& source, const StateSource& states) {
  if (whole_) return whole_->load(source, states);
  std::vector<StateSource> of_stages;
  if (states) {
    for (const Part& part : parts_) of_stages.emplace_back([&part, &states](ValueId id) { return states(part.in_model[id]); });
  }
  return stages_->load(by_stage(source), of_stages);
}

Result<Report> Runner::step(const TensorSource& inputs, const std::vector<RunObserver*>& observers) {
  if (whole_) return whole_->step(inputs, observers.empty() ? nullptr : observers.front());
  return stages_->step(by_stage(inputs), observers);
}

Result<Tensor> Runner::fetch(std::size_t part, ValueId id) const { return whole_ ? whole_->fetch(id) : stages_->fetch(part, id); }

Result<OptimizerState> Runner::fetch_state(std::size_t part, ValueId parameter) const { return whole_ ? whole_->fetch_state(parameter) : stages_->fetch_state(part, parameter); }

std::vector<std::int64_t> Runner::group_peaks() const { return stages_ ? stages_->peak_bytes() : std::vector<std::int64_t>{}; }

std::vector<TensorSource> Runner::by_stage(const TensorSource& source) const {
  std::vector<TensorSource> sources;
  for (const Part& part : parts_) sources.emplace_back([&part, source](ValueId id, std::int64_t microbatch) { return source(part.in_model[id], microbatch); });
  return sources;
}

}  // namespace meshwright
