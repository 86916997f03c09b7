#include "run_ranks.h"

#include <deque>
#include <exception>
#include <map>
#include <numeric>
#include <thread>

#include "execution.h"
#include "meshwright/stages.h"

namespace meshwright {

namespace {

// The ranks of one stage of a pipeline, and what they keep from step to step; or those of a whole model.
class StageRanks {
 public:
  explicit StageRanks(const BackendInput& input) : input_(input), program_(input.program), steps_(occurrences(program_)), arena_(make_arena(program_)) {
    for (std::int64_t rank = 0; rank < program_.mesh.devices(); ++rank) ranks_.emplace_back(input_, steps_, arena_, rank);
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

using Stages = std::deque<StageRanks>;

std::vector<const Program*> programs_of(const Stages& stages) {
  std::vector<const Program*> programs;
  for (const StageRanks& stage : stages) programs.push_back(&stage.program());
  return programs;
}

std::int64_t ranks_of(const Stages& stages) {
  return std::accumulate(stages.begin(), stages.end(), std::int64_t{0}, [](std::int64_t sum, const StageRanks& stage) { return sum + stage.size(); });
}

// Where each place of each stage's steps stands in the order of all.
using Order = std::vector<std::vector<std::size_t>>;

// All ranks of one step, each a thread; the first is the caller's.
class Run {
 public:
  // `inputs` and `observers` by stage.
  Run(Stages& stages, const Order& order, const RunOptions& options, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers)
      : stages_(stages),
        options_(options),
        meeting_(ranks_of(stages), [this](std::size_t place) { return described(place); }),
        post_(programs_of(stages), meeting_) {
    std::int64_t first = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      StageRanks& stage = stages_[s];
      parts_.emplace_back(stage, s, inputs[s], observers[s], Transport(stage.program(), meeting_, options.scatter_partials, {first, order[s]}), order[s], first, post_);
      first += stage.size();
    }
  }

  Result<Report> run() {
    std::vector<std::thread> threads;
    for (Part& part : parts_) {
      for (std::int64_t rank = 0; rank < part.stage.size(); ++rank) {
        if (part.ways.first_rank + rank == 0) continue;
        try {
          threads.emplace_back([this, &part, rank] { follow(part, rank); });
        } catch (const std::exception& problem) {
          meeting_.fail(part.ways.first_rank + rank, 0, internal_error(name(part, rank) + " can't start: " + problem.what()));
          meeting_.leave(part.ways.first_rank + rank);
        }
      }
    }
    follow(parts_.front(), 0);
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

  // What a rank does.
  void follow(Part& part, std::int64_t rank) {
    std::size_t index = 0;
    try {
      const Result<bool> done = execute_all(part, rank, index);
      if (!done) fail(part, rank, index, done.error());
    } catch (const std::exception& problem) {
      fail(part, rank, index, internal_error(problem.what()));
    }
    meeting_.leave(part.ways.first_rank + rank);
  }

  Result<bool> execute_all(Part& part, std::int64_t rank, std::size_t& index) {
    Execution& execution = part.stage.rank(rank);
    execution.begin(part.inputs, part.ways, part.observer);
    const bool all = options_.instructions.empty();
    const std::vector<std::size_t> chosen =
        all ? std::vector<std::size_t>{} : options_.instructions[static_cast<std::size_t>(rank)];
    const std::size_t steps = part.stage.steps().size(), count = all ? steps : chosen.size();
    for (std::size_t i = 0; i < count; ++i) {
      index = all ? i : chosen[i];
      if (!meeting_.goes_on(part.place(index))) return false;
      const Result<bool> done = execution.execute(index);
      if (!done || !*done) return done;
    }
    index = steps;
    if (!meeting_.goes_on(part.place(index))) return false;
    if (const Status status = execution.give_outputs(); !status) return status.error();
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
    for (const Part& part : parts_) {
      report.ranks += part.stage.size();
      report.arena_bytes = std::max(report.arena_bytes, part.stage.arena_bytes());
      for (std::int64_t rank = 0; rank < part.stage.size(); ++rank) {
        const Execution& execution = part.stage.rank(rank);
        report.bytes_sent += part.transport.fetched_bytes(rank) + execution.received_bytes();
        if (execution.peak_bytes() <= report.peak_bytes) continue;
        report.peak_bytes = execution.peak_bytes();
        report.peak_instruction = execution.peak_instruction();
      }
    }
    return report;
  }

  Stages& stages_;  // until all have left, since a rank reads what others hold
  const RunOptions& options_;
  Meeting meeting_;
  Post post_;
  std::deque<Part> parts_;
};

// One step of all stages.
Result<Report> take_step(Stages& stages, const Order& order, const RunOptions& options, const std::vector<TensorSource>& sources, const std::vector<RunObserver*>& observers) {
  std::vector<std::vector<const Tensor*>> inputs;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Result<std::vector<const Tensor*>> here = stages[s].begin(sources[s]);
    if (!here) return here.error();
    inputs.push_back(std::move(*here));
  }
  Result<Report> report = Run(stages, order, options, inputs, observers).run();
  if (!report) return report;
  for (StageRanks& stage : stages) {
    if (Status status = stage.end(); !status) return status.error();
  }
  return report;
}

class RanksExecutable final : public Executable {
 public:
  RanksExecutable(const BackendInput& input, RunOptions options) : options_(std::move(options)) {
    stages_.emplace_back(input);
    order_.resize(1);
    order_[0].resize(stages_[0].steps().size());
    std::iota(order_[0].begin(), order_[0].end(), std::size_t{0});
  }

 private:
  Status do_load(const TensorSource& source) override { return stages_[0].load(source); }
  Result<Report> do_step(const TensorSource& source, RunObserver* observer) override { return take_step(stages_, order_, options_, {source}, {observer}); }
  Result<Tensor> do_fetch(ValueId source) const override { return stages_[0].fetch(source); }

  const RunOptions options_;
  Stages stages_;
  Order order_;
};

class RanksOfStages final : public StagesExecutable {
 public:
  RanksOfStages(const std::vector<BackendInput>& inputs, Order order, RunOptions options) : options_(std::move(options)), order_(std::move(order)) {
    for (const BackendInput& input : inputs) stages_.emplace_back(input);
  }

 private:
  Status check(std::size_t given, const char* what) const {
    if (given == stages_.size()) return Done{};
    return bad_input("there are " + std::to_string(stages_.size()) + " stages, and " + what + " for " + std::to_string(given));
  }

  Status do_load(const std::vector<TensorSource>& sources) override {
    if (Status status = check(sources.size(), "tensors"); !status) return status;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (Status status = stages_[s].load(sources[s]); !status) return add_context("stage " + std::to_string(s), status.error());
    }
    return Done{};
  }

  Result<Report> do_step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers) override {
    if (Status status = check(inputs.size(), "tensors"); !status) return status.error();
    std::vector<RunObserver*> all = observers;
    all.resize(stages_.size(), nullptr);
    return take_step(stages_, order_, options_, inputs, all);
  }

  Result<Tensor> do_fetch(std::size_t stage, ValueId source) const override {
    if (stage >= stages_.size()) return bad_input("there is no stage " + std::to_string(stage));
    return stages_[stage].fetch(source);
  }

  [[nodiscard]] std::vector<std::int64_t> do_peak_bytes() const override {
    std::vector<std::int64_t> peaks;
    for (const StageRanks& stage : stages_) {
      std::int64_t peak = 0;
      for (std::int64_t rank = 0; rank < stage.size(); ++rank) peak = std::max(peak, stage.rank(rank).peak_bytes());
      peaks.push_back(peak);
    }
    return peaks;
  }

  const RunOptions options_;
  const Order order_;
  Stages stages_;
};

}  // namespace

std::unique_ptr<Executable> compile_ranks(const BackendInput& input, const RunOptions& options) {
  return std::make_unique<RanksExecutable>(input, options);
}

Result<std::unique_ptr<StagesExecutable>> compile_stage_ranks(const std::vector<BackendInput>& stages, const RunOptions& options) {
  std::vector<Program> programs;
  for (const BackendInput& stage : stages) programs.push_back(stage.program);
  Result<Order> order = joint_order(programs);
  if (!order) return order.error();
  return std::unique_ptr<StagesExecutable>(std::make_unique<RanksOfStages>(stages, std::move(*order), options));
}

}  // namespace meshwright
