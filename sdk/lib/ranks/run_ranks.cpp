#include "run_ranks.h"

#include <deque>
#include <exception>
#include <thread>

#include "execution.h"

namespace meshwright {

namespace {

// The whole tensors of the parameters, then of the inputs.
Result<std::vector<const Tensor*>> whole_sources(const BackendInput& input) {
  const Program& program = input.program;
  std::vector<const Tensor*> sources;
  const auto add = [&](ValueId source, ProgramValueId value, std::int64_t microbatch) -> Status {
    const std::string& name = program.values[value].name;
    const Tensor* tensor = input.source ? input.source(source, microbatch) : nullptr;
    if (!tensor) return bad_input("there is no tensor for '" + name + "'");
    if (tensor->type() != program.type(value).type) {
      return bad_input("'" + name + "' is " + to_string(program.type(value).type) +
                       ", but the tensor given for it is " + to_string(tensor->type()));
    }
    sources.push_back(tensor);
    return Done{};
  };
  for (const ProgramParameter& parameter : program.parameters) {
    if (Status status = add(parameter.source, parameter.value, 0); !status) return status.error();
  }
  for (const ProgramInput& given : program.inputs) {
    if (Status status = add(given.source, given.value, given.microbatch); !status) return status.error();
  }
  return sources;
}

// All ranks of one run.
class Run {
 public:
  Run(const BackendInput& input, const RunOptions& options, const std::vector<const Tensor*>& sources)
      : program_(input.program),
        options_(options),
        meeting_(program_.mesh.devices(), [this](std::size_t index) { return describe(program_, index); }),
        transport_(program_, meeting_, options.scatter_partials) {
    for (std::int64_t rank = 0; rank < program_.mesh.devices(); ++rank) {
      ranks_.emplace_back(input, sources, rank, transport_);
    }
  }

  Result<Report> run() {
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < program_.mesh.devices(); ++rank) {
      try {
        threads.emplace_back([this, rank] { follow(rank); });
      } catch (const std::exception& problem) {
        meeting_.fail(rank, 0, internal_error("rank " + std::to_string(rank) + " can't start: " + problem.what()));
        meeting_.leave(rank);
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (const std::optional<Error> failure = meeting_.failure()) return *failure;
    return report();
  }

 private:
  // What the thread of a rank does.
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
    execution.load();
    const bool all = options_.instructions.empty();
    const std::vector<std::size_t> chosen =
        all ? std::vector<std::size_t>{} : options_.instructions[static_cast<std::size_t>(rank)];
    const std::size_t count = all ? program_.instructions.size() : chosen.size();
    for (std::size_t i = 0; i < count; ++i) {
      index = all ? i : chosen[i];
      if (!meeting_.goes_on(index)) return false;
      const Result<bool> done = execution.execute(index);
      if (!done || !*done) return done;
    }
    index = program_.instructions.size();
    if (!meeting_.goes_on(index)) return false;
    if (const Status status = execution.give_outputs(); !status) return status.error();
    return true;
  }

  void fail(std::int64_t rank, std::size_t index, const Error& error) {
    std::string where = "rank " + std::to_string(rank);
    if (index < program_.instructions.size()) where += ", " + describe(program_, index);
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
  const RunOptions& options_;
  Meeting meeting_;
  Transport transport_;
  std::deque<Execution> ranks_;  // until all have left, since a rank reads what others hold
};

}  // namespace

Result<Report> run_ranks(const BackendInput& input, const RunOptions& options) {
  const Result<std::vector<const Tensor*>> sources = whole_sources(input);
  if (!sources) return sources.error();
  return Run(input, options, *sources).run();
}

}  // namespace meshwright
