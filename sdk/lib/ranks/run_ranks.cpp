#include "run_ranks.h"

#include <deque>
#include <exception>
#include <map>
#include <thread>

#include "execution.h"

namespace meshwright {

namespace {

// All ranks of one step, each a thread; the first is the caller's.
class Run {
 public:
  Run(const Program& program, const std::vector<Occurrence>& steps, const RunOptions& options, std::deque<Execution>& ranks,
      const std::vector<const Tensor*>& inputs, RunObserver* observer)
      : program_(program),
        steps_(steps),
        options_(options),
        ranks_(ranks),
        inputs_(inputs),
        observer_(observer),
        meeting_(program.mesh.devices(), [this](std::size_t step) { return describe(program_, steps_[step]); }),
        transport_(program, meeting_, options.scatter_partials) {}

  Result<Report> run() {
    std::vector<std::thread> threads;
    for (std::int64_t rank = 1; rank < program_.mesh.devices(); ++rank) {
      try {
        threads.emplace_back([this, rank] { follow(rank); });
      } catch (const std::exception& problem) {
        meeting_.fail(rank, 0, internal_error("rank " + std::to_string(rank) + " can't start: " + problem.what()));
        meeting_.leave(rank);
      }
    }
    follow(0);
    for (std::thread& thread : threads) thread.join();
    if (const std::optional<Error> failure = meeting_.failure()) return *failure;
    return report();
  }

 private:
  // What a rank does.
  void follow(std::int64_t rank) {
    std::size_t index = 0;
    try {
      const Result<bool> done = execute_all(rank, index);
      if (!done) fail(rank, index, done.error());
    } catch (const std::exception& problem) {
      fail(rank, index, internal_error(problem.what()));
    }
    meeting_.leave(rank);
  }

  Result<bool> execute_all(std::int64_t rank, std::size_t& index) {
    Execution& execution = ranks_[static_cast<std::size_t>(rank)];
    execution.begin(inputs_, transport_, observer_);
    const bool all = options_.instructions.empty();
    const std::vector<std::size_t> chosen =
        all ? std::vector<std::size_t>{} : options_.instructions[static_cast<std::size_t>(rank)];
    const std::size_t count = all ? steps_.size() : chosen.size();
    for (std::size_t i = 0; i < count; ++i) {
      index = all ? i : chosen[i];
      if (!meeting_.goes_on(index)) return false;
      const Result<bool> done = execution.execute(index);
      if (!done || !*done) return done;
    }
    index = steps_.size();
    if (!meeting_.goes_on(index)) return false;
    if (const Status status = execution.give_outputs(); !status) return status.error();
    return true;
  }

  void fail(std::int64_t rank, std::size_t index, const Error& error) {
    std::string where = "rank " + std::to_string(rank);
    if (index < steps_.size()) where += ", " + describe(program_, steps_[index]);
    meeting_.fail(rank, index, add_context(where, error));
  }

  Report report() const {
    Report report;
    report.ranks = program_.mesh.devices();
    for (std::int64_t rank = 0; rank < report.ranks; ++rank) {
      const Execution& execution = ranks_[static_cast<std::size_t>(rank)];
      report.bytes_sent += transport_.fetched_bytes(rank);
      if (execution.peak_bytes() <= report.peak_bytes) continue;
      report.peak_bytes = execution.peak_bytes();
      report.peak_instruction = execution.peak_instruction();
    }
    return report;
  }

  const Program& program_;
  const std::vector<Occurrence>& steps_;
  const RunOptions& options_;
  std::deque<Execution>& ranks_;  // until all have left, since a rank reads what others hold
  const std::vector<const Tensor*>& inputs_;
  RunObserver* observer_;
  Meeting meeting_;
  Transport transport_;
};

class RanksExecutable final : public Executable {
 public:
  RanksExecutable(const BackendInput& input, RunOptions options)
      : input_(input), program_(input.program), options_(std::move(options)), steps_(occurrences(program_)), arena_(make_arena(program_)) {
    for (std::int64_t rank = 0; rank < program_.mesh.devices(); ++rank) ranks_.emplace_back(input_, steps_, arena_, rank);
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

  Status do_load(const TensorSource& source) override {
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

  Result<Report> do_step(const TensorSource& source, RunObserver* observer) override {
    if (!loaded_) return bad_input("the program has to be loaded before it takes a step");
    std::vector<const Tensor*> inputs;
    for (const ProgramInput& input : program_.inputs) {
      const auto resident = resident_.find(input.source);
      Result<const Tensor*> tensor = resident != resident_.end() ? &resident->second : whole(source, input.source, input.value, input.microbatch);
      if (!tensor) return tensor.error();
      inputs.push_back(*tensor);
    }
    loaded_ = false;
    Result<Report> report = Run(program_, steps_, options_, ranks_, inputs, observer).run();
    if (!report) return report;
    report->arena_bytes = arena_.bytes;
    if (Status status = keep_buffers(); !status) return status.error();
    for (Execution& rank : ranks_) rank.end();
    loaded_ = true;
    return report;
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

  Result<Tensor> do_fetch(ValueId source) const override {
    if (!loaded_) return bad_input("the program has to be loaded before anything is fetched from it");
    for (const ProgramParameter& parameter : program_.parameters) {
      if (parameter.source == source) return joined(parameter.value, 0);
    }
    const auto resident = resident_.find(source);
    if (resident == resident_.end()) return bad_input("only parameters, buffers and constants of the program can be fetched");
    return resident->second;
  }

  const BackendInput input_;
  const Program& program_;
  const RunOptions options_;
  const std::vector<Occurrence> steps_;
  const Arena arena_;
  std::deque<Execution> ranks_;
  std::map<ValueId, Tensor> resident_;  // buffers and constants, whole
  bool loaded_ = false;
};

}  // namespace

std::unique_ptr<Executable> compile_ranks(const BackendInput& input, const RunOptions& options) {
  return std::make_unique<RanksExecutable>(input, options);
}

}  // namespace meshwright
