#include "run_ranks.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <numeric>
#include <span>
#include <thread>

#include "execution.h"
#include "meshwright/stages.h"

namespace meshwright {

namespace {

// The ranks of one stage of a pipeline, and what they keep from step to step; or those of a whole model.
class StageRanks {
 public:
  // `devices`: one for each rank.
  StageRanks(const BackendInput& input, std::span<DeviceBytes> devices) : input_(input), program_(input.program), steps_(occurrences(program_)), arena_(make_arena(program_)) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank) ranks_.emplace_back(input_, steps_, arena_, static_cast<std::int64_t>(rank), devices[rank]);
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<Occurrence>& steps() const { return steps_; }
  [[nodiscard]] std::int64_t arena_bytes() const { return arena_.bytes; }
  [[nodiscard]] std::int64_t size() const { return program_.mesh.devices(); }
  Execution& rank(std::int64_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Execution& rank(std::int64_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  Status load(const TensorSource& source) {
    loaded_ = false;
    std::vector<const Tensor*> parameters;
    for (const ProgramParameter& parameter : program_.parameters) {
      Result<const Tensor*> tensor = whole(source, parameter.source, parameter.value, 0);
      if (!tensor) return tensor.error();
      parameters.push_back(*tensor);
    }
    resident_.clear();
    for (const ProgramInput& input : program_.inputs) {
      if (input.kind == SourceKind::user_input || resident_.contains(input.source)) continue;
      Result<const Tensor*> tensor = whole(source, input.source, input.value, 0);
      if (!tensor) return tensor.error();
      resident_.emplace(input.source, **tensor);
    }
    for (Execution& rank : ranks_) rank.load(parameters);
    loaded_ = true;
    return Done{};
  }

  // What a step begins with. Until `end` it has to be loaded anew.
  Result<std::vector<const Tensor*>> begin(const TensorSource& source) {
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

  Status end() {
    if (Status status = keep_buffers(); !status) return status.error();
    for (Execution& rank : ranks_) rank.end();
    loaded_ = true;
    return Done{};
  }

  [[nodiscard]] Result<Tensor> fetch(ValueId source) const {
    if (!loaded_) return bad_input("the program has to be loaded before anything is fetched from it");
    for (const ProgramParameter& parameter : program_.parameters) {
      if (parameter.source == source) return joined(parameter.value, 0);
    }
    const auto resident = resident_.find(source);
    if (resident == resident_.end()) return bad_input("only parameters, buffers and constants of the program can be fetched");
    return resident->second;
  }

 private:
  // The whole tensor of a value of the program.
  Result<const Tensor*> whole(const TensorSource& source, ValueId id, ProgramValueId value, std::int64_t microbatch) const {
    const std::string& name = program_.values[value].name;
    const Tensor* tensor = source ? source(id, microbatch) : nullptr;
    if (tensor == nullptr) return bad_input("there is no tensor for '" + name + "'");
    if (tensor->type() == program_.type(value).type) return tensor;
    return bad_input("'" + name + "' is " + to_string(program_.type(value).type) + ", but the tensor given for it is " + to_string(tensor->type()));
  }

  // What the step left in buffers is what the next one finds.
  Status keep_buffers() {
    for (const ProgramOutput& output : program_.outputs) {
      if (output.buffer == kNoId) continue;
      Result<Tensor> whole = joined(output.value, output.microbatch);
      if (!whole) return whole.error();
      resident_.insert_or_assign(output.buffer, std::move(*whole));
    }
    return Done{};
  }

  // A value from the parts of all ranks.
  Result<Tensor> joined(ProgramValueId id, std::int64_t microbatch) const {
    Tensor whole(program_.type(id).type);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Result<Tensor> part = ranks_[rank].part(id, microbatch);
      if (!part) return part.error();
      paste(*part, program_.type(id), program_.mesh, coordinates_of(program_.mesh, static_cast<std::int64_t>(rank)), whole);
    }
    return whole;
  }

  const BackendInput input_;
  const Program& program_;
  const std::vector<Occurrence> steps_;
  const Arena arena_;
  std::deque<Execution> ranks_;
  std::map<ValueId, Tensor> resident_;  // buffers and constants, whole
  bool loaded_ = false;
};

// All stages, and the devices that they are on.
struct Stages {
  std::deque<std::vector<DeviceBytes>> groups;
  std::vector<std::uint32_t> group_of;  // by stage
  JointOrder order;
  std::deque<StageRanks> ranks;         // by stage

  void empty_devices() {
    for (std::vector<DeviceBytes>& group : groups) std::ranges::fill(group, DeviceBytes());
  }
};

std::vector<const Program*> programs_of(const Stages& stages) {
  std::vector<const Program*> programs;
  for (const StageRanks& stage : stages.ranks) programs.push_back(&stage.program());
  return programs;
}

std::int64_t devices_of(const Stages& stages) {
  return std::accumulate(stages.groups.begin(), stages.groups.end(), std::int64_t{0}, [](std::int64_t sum, const auto& group) { return sum + std::ssize(group); });
}

// All devices of one step, each a thread; the first is the caller's.
class Run {
 public:
  // `inputs` and `observers` by stage.
  Run(Stages& stages, const RunOptions& options, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers)
      : stages_(stages),
        options_(options),
        meeting_(devices_of(stages), [this](std::size_t place) { return described(place); }),
        post_(programs_of(stages), meeting_) {
    std::int64_t first = 0;
    for (const std::vector<DeviceBytes>& group : stages_.groups) {
      lanes_.push_back({first, std::ssize(group), {}, {}});
      first += std::ssize(group);
    }
    for (std::size_t s = 0; s < stages_.ranks.size(); ++s) {
      StageRanks& stage = stages_.ranks[s];
      Lane& lane = lanes_[stages_.group_of[s]];
      const std::vector<std::size_t>& places = stages_.order[s];
      lane.parts.push_back(&parts_.emplace_back(stage, s, inputs[s], observers[s], Transport(stage.program(), meeting_, options.scatter_partials, {lane.first_rank, places}), places, lane.first_rank, post_));
      for (std::size_t i = 0; i < places.size(); ++i) lane.turns.push_back({places[i], lane.parts.size() - 1, i});
    }
    for (Lane& lane : lanes_) std::ranges::sort(lane.turns, {}, &Turn::place);
  }

  Result<Report> run() {
    std::vector<std::thread> threads;
    for (const Lane& lane : lanes_) {
      for (std::int64_t rank = 0; rank < lane.devices; ++rank) {
        if (lane.first_rank + rank == 0) continue;
        try {
          threads.emplace_back([this, &lane, rank] { follow(lane, rank); });
        } catch (const std::exception& problem) {
          meeting_.fail(lane.first_rank + rank, 0, internal_error(name(*lane.parts.front(), rank) + " can't start: " + problem.what()));
          meeting_.leave(lane.first_rank + rank);
        }
      }
    }
    follow(lanes_.front(), 0);
    for (std::thread& thread : threads) thread.join();
    if (const std::optional<Error> failure = meeting_.failure()) return *failure;
    return report();
  }

 private:
  // One stage's part of the step.
  struct Part {
    Part(StageRanks& of, std::size_t at, const std::vector<const Tensor*>& given, RunObserver* looks, Transport moves, const std::vector<std::size_t>& places, std::int64_t first, Post& post)
        : stage(of), number(at), inputs(given), observer(looks), transport(std::move(moves)), ways{transport, post, first, places} {}

    StageRanks& stage;
    std::size_t number = 0;
    const std::vector<const Tensor*>& inputs;
    RunObserver* observer = nullptr;
    Transport transport;
    Execution::Ways ways;

    // Behind the last one there is the end of all.
    [[nodiscard]] std::size_t place(std::size_t index) const { return index < ways.order.size() ? ways.order[index] : std::numeric_limits<std::size_t>::max() - 1; }
  };

  // What a device does of one part, and where that stands in the order of all.
  struct Turn {
    std::size_t place = 0, part = 0, index = 0;
  };

  // The devices of a group: what they run, in turn.
  struct Lane {
    std::int64_t first_rank = 0, devices = 0;
    std::vector<Part*> parts;
    std::vector<Turn> turns;
  };

  [[nodiscard]] std::string name(const Part& part, std::int64_t rank) const {
    return (parts_.size() > 1 ? "stage " + std::to_string(part.number) + ", " : "") + "rank " + std::to_string(rank);
  }

  // An occurrence by its place in the order of all.
  [[nodiscard]] std::string described(std::size_t place) const {
    for (const Part& part : parts_) {
      const auto found = std::ranges::lower_bound(part.ways.order, place);
      if (found == part.ways.order.end() || *found != place) continue;
      const std::string where = parts_.size() > 1 ? "stage " + std::to_string(part.number) + ", " : "";
      return where + describe(part.stage.program(), part.stage.steps()[static_cast<std::size_t>(found - part.ways.order.begin())]);
    }
    return "the end of the step";
  }

  // What a device does.
  void follow(const Lane& lane, std::int64_t rank) {
    Turn at{0, 0, 0};
    try {
      const Result<bool> done = execute_all(lane, rank, at);
      if (!done) fail(*lane.parts[at.part], rank, at.index, done.error());
    } catch (const std::exception& problem) {
      fail(*lane.parts[at.part], rank, at.index, internal_error(problem.what()));
    }
    meeting_.leave(lane.first_rank + rank);
  }

  // `at`: what is being done.
  Result<bool> execute_all(const Lane& lane, std::int64_t rank, Turn& at) {
    for (Part* part : lane.parts) part->stage.rank(rank).begin(part->inputs, part->ways, part->observer);
    const bool all = options_.instructions.empty();
    const std::vector<std::size_t> chosen = all ? std::vector<std::size_t>{} : options_.instructions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < (all ? lane.turns.size() : chosen.size()); ++i) {
      at = all ? lane.turns[i] : Turn{0, 0, chosen[i]};
      Part& part = *lane.parts[at.part];
      if (!meeting_.goes_on(part.place(at.index))) return false;
      const Result<bool> done = part.stage.rank(rank).execute(at.index);
      if (!done || !*done) return done;
    }
    for (at.part = 0; at.part < lane.parts.size(); ++at.part) {
      Part& part = *lane.parts[at.part];
      at.index = part.stage.steps().size();
      if (!meeting_.goes_on(part.place(at.index))) return false;
      if (const Status status = part.stage.rank(rank).give_outputs(); !status) return status.error();
    }
    return true;
  }

  void fail(const Part& part, std::int64_t rank, std::size_t index, const Error& error) {
    const std::vector<Occurrence>& steps = part.stage.steps();
    std::string where = name(part, rank);
    if (index < steps.size()) where += ", " + describe(part.stage.program(), steps[index]);
    meeting_.fail(part.ways.first_rank + rank, part.place(index), add_context(where, error));
  }

  Report report() const {
    Report report;
    for (const Lane& lane : lanes_) {
      report.ranks += lane.devices;
      std::int64_t arenas = 0;
      for (const Part* part : lane.parts) arenas += part->stage.arena_bytes();
      report.arena_bytes = std::max(report.arena_bytes, arenas);
    }
    for (const Part& part : parts_) {
      for (std::int64_t rank = 0; rank < part.stage.size(); ++rank) {
        const Execution& execution = part.stage.rank(rank);
        report.bytes_sent += part.transport.fetched_bytes(rank) + execution.received_bytes();
        if (execution.peak_bytes() <= report.peak_bytes) continue;
        report.peak_bytes = execution.peak_bytes();
        report.peak_instruction = execution.peak_instruction();
      }
    }
    for (const std::vector<DeviceBytes>& group : stages_.groups) {
      for (const DeviceBytes& device : group) report.peak_bytes = std::max(report.peak_bytes, device.most);
    }
    return report;
  }

  Stages& stages_;  // until all have left, since a rank reads what others hold
  const RunOptions& options_;
  Meeting meeting_;
  Post post_;
  std::deque<Part> parts_;  // by stage
  std::deque<Lane> lanes_;  // by group
};

// One step of all stages.
Result<Report> take_step(Stages& stages, const RunOptions& options, const std::vector<TensorSource>& sources, const std::vector<RunObserver*>& observers) {
  std::vector<std::vector<const Tensor*>> inputs;
  for (std::size_t s = 0; s < stages.ranks.size(); ++s) {
    Result<std::vector<const Tensor*>> here = stages.ranks[s].begin(sources[s]);
    if (!here) return here.error();
    inputs.push_back(std::move(*here));
  }
  Result<Report> report = Run(stages, options, inputs, observers).run();
  if (!report) return report;
  for (StageRanks& stage : stages.ranks) {
    if (Status status = stage.end(); !status) return status.error();
  }
  return report;
}

class RanksExecutable final : public Executable {
 public:
  RanksExecutable(const BackendInput& input, RunOptions options) : options_(std::move(options)) {
    stages_.groups.emplace_back(static_cast<std::size_t>(input.program.mesh.devices()));
    stages_.group_of = {0};
    stages_.ranks.emplace_back(input, stages_.groups.front());
    stages_.order.resize(1);
    stages_.order[0].resize(stages_.ranks[0].steps().size());
    std::iota(stages_.order[0].begin(), stages_.order[0].end(), std::size_t{0});
  }

 private:
  Status do_load(const TensorSource& source) override {
    stages_.empty_devices();
    return stages_.ranks[0].load(source);
  }
  Result<Report> do_step(const TensorSource& source, RunObserver* observer) override { return take_step(stages_, options_, {source}, {observer}); }
  Result<Tensor> do_fetch(ValueId source) const override { return stages_.ranks[0].fetch(source); }

  const RunOptions options_;
  Stages stages_;
};

class RanksOfStages final : public StagesExecutable {
 public:
  // `group_of` and `order` by stage.
  RanksOfStages(const std::vector<BackendInput>& inputs, std::vector<std::uint32_t> group_of, JointOrder order, RunOptions options) : options_(std::move(options)) {
    stages_.groups.resize(1 + *std::ranges::max_element(group_of));
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      std::vector<DeviceBytes>& group = stages_.groups[group_of[s]];
      group.resize(static_cast<std::size_t>(inputs[s].program.mesh.devices()));
      stages_.ranks.emplace_back(inputs[s], group);
    }
    stages_.group_of = std::move(group_of);
    stages_.order = std::move(order);
  }

 private:
  Status check(std::size_t given, const char* what) const {
    if (given == stages_.ranks.size()) return Done{};
    return bad_input("there are " + std::to_string(stages_.ranks.size()) + " stages, and " + what + " for " + std::to_string(given));
  }

  Status do_load(const std::vector<TensorSource>& sources) override {
    if (Status status = check(sources.size(), "tensors"); !status) return status;
    stages_.empty_devices();
    for (std::size_t s = 0; s < sources.size(); ++s) {
      if (Status status = stages_.ranks[s].load(sources[s]); !status) return add_context("stage " + std::to_string(s), status.error());
    }
    return Done{};
  }

  Result<Report> do_step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers) override {
    if (Status status = check(inputs.size(), "tensors"); !status) return status.error();
    std::vector<RunObserver*> all = observers;
    all.resize(inputs.size(), nullptr);
    return take_step(stages_, options_, inputs, all);
  }

  Result<Tensor> do_fetch(std::size_t stage, ValueId source) const override {
    if (stage >= stages_.ranks.size()) return bad_input("there is no stage " + std::to_string(stage));
    return stages_.ranks[stage].fetch(source);
  }

  [[nodiscard]] std::vector<std::int64_t> do_peak_bytes() const override {
    std::vector<std::int64_t> peaks;
    for (const std::vector<DeviceBytes>& group : stages_.groups) peaks.push_back(std::ranges::max(group, {}, &DeviceBytes::most).most);
    return peaks;
  }

  const RunOptions options_;
  Stages stages_;
};

}  // namespace

std::unique_ptr<Executable> compile_ranks(const BackendInput& input, const RunOptions& options) {
  return std::make_unique<RanksExecutable>(input, options);
}

Result<std::unique_ptr<StagesExecutable>> compile_stage_ranks(const std::vector<BackendInput>& stages, const GroupOrders& orders, const RunOptions& options) {
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
  return std::unique_ptr<StagesExecutable>(std::make_unique<RanksOfStages>(stages, std::move(group_of), std::move(*order), options));
}

}  // namespace meshwright
