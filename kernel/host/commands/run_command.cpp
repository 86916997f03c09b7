#include "commands/run_command.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "commands/open_plan.h"
#include "commands/runnable_plan.h"
#include "commands/training_state.h"
#include "config/log_sink.h"
#include "files/json.h"
#include "files/safetensors.h"
#include "files/write_file.h"
#include "report/report_error.h"
#include "runner.h"
#include "sources.h"

namespace meshwright::host {

namespace {

constexpr const char* kRun = "run";

// What was seen of the steps.
struct Trained {
  std::int64_t first_step = 0;  // the number of steps that were taken before
  std::vector<double> losses;
  std::vector<double> step_seconds;
  Report report;  // of the last step
};

// A plan that is being trained, on one process of those that run it.
class Training {
 public:
  Training(const RunOptions& options, OpenAnyPlan opened, const Backend& backend) : options_(options), host_(std::move(opened.host)), tools_(std::move(opened.tools)), backend_(backend), opened_(std::move(opened.plan)) {}

  // All that needs no other process. Errors: of the plan, the model's weights, the file that is resumed.
  Status prepare() {
    Result<RunnablePlan> plan = make_runnable(std::move(opened_), tools_, backend_, false, kRun);
    if (!plan) return plan.error();
    plan_ = std::move(*plan);
    if (Status status = check_loss(); !status) return status;
    Result<std::unique_ptr<KernelTable>> kernels = kernels_for(host_, options_.plan.backend);
    if (!kernels) return kernels.error();
    kernels_ = std::move(*kernels);
    Result<std::map<std::string, Tensor>> weights = weights_of(plan_, host_, false, kRun);
    if (!weights) return weights.error();
    state_.seed = options_.seed.value_or(0);
    if (!options_.resume.empty()) {
      if (Status status = resume(*weights); !status) return status;
    }
    Result<std::map<ValueId, Tensor>> sources = sample_sources(plan_.model, *weights, sources_seed(state_.seed));
    if (!sources) return sources.error();
    sources_ = std::move(*sources);
    for (const Source& source : plan_.model.sources) {
      const auto given = weights->find(plan_.model.values[source.value].name);
      if (source.kind == SourceKind::user_input && given != weights->end()) given_inputs_.insert(weights->extract(given));
    }
    return Done{};
  }

  // Errors: of the backend.
  Status start() {
    std::vector<Runner::Part> parts;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      parts.push_back({{plan_.made.programs[s], *tools_.ops, plan_.made.profiles[s], kernels_.get(), {}, nullptr, {}, &plan_.stages[s]}, values_in_model(plan_.model, plan_.graph(s))});
    }
    Result<Runner> runner = Runner::compile(backend_, std::move(parts), plan_.orders, plan_.is_whole);
    if (!runner) return add_context("backend '" + options_.plan.backend + "'", runner.error());
    runner_ = std::make_unique<Runner>(std::move(*runner));
    const StateSource states = [&](ValueId id) -> const OptimizerState* {
      const auto found = state_.states.find(id);
      return found == state_.states.end() ? nullptr : &found->second;
    };
    const Status loaded = runner_->load([&](ValueId id, std::int64_t) { return find(sources_, id); }, states);
    sources_.clear();  // as large as the model
    state_.states.clear();
    return loaded;
  }

  // Errors: of the backend.
  Result<Trained> train() {
    Trained trained;
    trained.first_step = state_.steps;
    for (std::int64_t i = 0; i < options_.steps; ++i) {
      const Result<std::vector<std::map<ValueId, Tensor>>> inputs = sample_step(plan_.model, given_inputs_, plan_.training.microbatches, state_.steps, state_.seed);
      if (!inputs) return inputs.error();
      const auto begin = std::chrono::steady_clock::now();
      Result<Report> report = runner_->step([&](ValueId id, std::int64_t microbatch) { return find((*inputs)[static_cast<std::size_t>(microbatch)], id); }, {});
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (!report) return report.error();
      ++state_.steps;
      if (!report->loss) return plugin_failed("backend '" + options_.plan.backend + "' reports no loss");
      trained.losses.push_back(*report->loss);
      trained.step_seconds.push_back(seconds.count());
      trained.report = std::move(*report);
    }
    return trained;
  }

  // What is to be saved, which all processes ask for together. Errors: of the backend.
  Result<TrainingState> fetch() const {
    Result<TrainingState> state = fetch_training_state(plan_, *runner_);
    if (!state) return state;
    state->steps = state_.steps;
    state->seed = state_.seed;
    return state;
  }

  Status write(const TrainingState& state) const {
    const Result<Safetensors> content = to_safetensors(plan_, state);
    if (!content) return content.error();
    const Result<std::string> text = write_safetensors(*content);
    if (!text) return text.error();
    return write_file_atomically(options_.save, *text);
  }

 private:
  static const Tensor* find(const std::map<ValueId, Tensor>& tensors, ValueId id) {
    const auto found = tensors.find(id);
    return found == tensors.end() ? nullptr : &found->second;
  }

  Status check_loss() const {
    for (const Program& program : plan_.made.programs) {
      for (const ProgramOutput& output : program.outputs) {
        if (output.kind == OutputKind::loss) return Done{};
      }
    }
    return bad_input("the model yields no loss, so that there is nothing to train; name it with [model] loss when it is planned");
  }

  // The file's tensors go before the model's.
  Status resume(std::map<std::string, Tensor>& weights) {
    Result<Safetensors> content = read_safetensors(options_.resume);
    if (!content) return content.error();
    Result<TrainingState> state = from_safetensors(plan_, std::move(*content), options_.resume);
    if (!state) return state.error();
    if (options_.seed && *options_.seed != state->seed) {
      return bad_input(options_.resume + ": was saved with --seed " + std::to_string(state->seed) + ", and goes on with it; leave --seed " + std::to_string(*options_.seed) + " out");
    }
    for (auto& [id, tensor] : state->tensors) weights.insert_or_assign(plan_.model.values[id].name, std::move(tensor));
    state->tensors.clear();
    state_ = std::move(*state);
    return Done{};
  }

  const RunOptions& options_;
  PluginHost host_;
  ProgramTools tools_;
  const Backend& backend_;
  std::variant<Plan, PipelinePlan> opened_;
  RunnablePlan plan_;
  std::unique_ptr<KernelTable> kernels_;
  std::map<ValueId, Tensor> sources_;                // until they are loaded
  std::map<std::string, Tensor> given_inputs_;       // that the model's file holds
  TrainingState state_;
  std::unique_ptr<Runner> runner_;
};

Json trained_json(const RunOptions& options, const Trained& trained) {
  Json losses = Json::Array{}, seconds = Json::Array{};
  for (const double loss : trained.losses) losses.push(loss);
  for (const double step : trained.step_seconds) seconds.push(step);
  Json json;
  json.add("backend", options.plan.backend).add("ranks", trained.report.ranks).add("first_step", trained.first_step).add("losses", std::move(losses)).add("step_seconds", std::move(seconds));
  return json.add("bytes_sent", trained.report.bytes_sent).add("peak_bytes", trained.report.peak_bytes);
}

std::string trained_text(const RunOptions& options, const Trained& trained) {
  std::string text = "  step          loss     seconds\n";
  char line[160];
  for (std::size_t i = 0; i < trained.losses.size(); ++i) {
    std::snprintf(line, sizeof line, "%6lld  %12.9g  %10.4g\n", static_cast<long long>(trained.first_step) + static_cast<long long>(i) + 1, trained.losses[i], trained.step_seconds[i]);
    text += line;
  }
  std::snprintf(line, sizeof line, "%lld ranks on backend '", static_cast<long long>(trained.report.ranks));
  text += line + options.plan.backend + "'\n";
  std::snprintf(line, sizeof line, "  bytes sent      %lld in a step, by all ranks\n  peak per rank   %lld bytes\n", static_cast<long long>(trained.report.bytes_sent),
                static_cast<long long>(trained.report.peak_bytes));
  text += line;
  return options.save.empty() ? text : text + "  saved           " + options.save + "\n";
}

// What becomes of work that this process does by itself. It always comes back: the others wait for it in `agree`.
template <class Work>
Status attempt(Work work) {
  try {
    return work();
  } catch (const std::exception& problem) {
    return internal_error(problem.what());
  }
}

Status status_of(const auto& result) { return result ? Status(Done{}) : Status(result.error()); }

// The exit code of an error that all processes have alike, which the first one says.
int said_once(const RunOptions& options, const Backend& backend, const Error& error) {
  return backend.processes().number == 0 ? fail(options.plan, error) : static_cast<int>(error.code);
}

Error unknown_backend(const std::string& id, Error error) {
  if (id == "mpi") error.message += "; 'mpi' is built where CMake finds OpenMPI (Debian: libopenmpi-dev, openmpi-bin)";
  return error;
}

}  // namespace

int run_training(const RunOptions& options) {
  keep_freed_memory();
  Result<PluginHost> host = open_host(options.plan);
  if (!host) return fail(options.plan, host.error());
  const Result<std::shared_ptr<Backend>> made = host->create<Backend>("backend", options.plan.backend);
  if (!made) return fail(options.plan, unknown_backend(options.plan.backend, made.error()));
  const Backend& backend = **made;
  const bool is_first = backend.processes().number == 0;
  if (!is_first) install_log_sink(LogLevel::error);  // a warning is one of all, and said once

  std::optional<Training> training;
  const Status prepared = attempt([&]() -> Status {
    if (std::filesystem::is_directory(options.save)) return bad_input(options.save + ": is a folder; --save wants a file's name");
    Result<OpenAnyPlan> opened = open_any_plan(options.plan, std::move(*host));
    if (!opened) return opened.error();
    training.emplace(options, std::move(*opened), backend);
    return training->prepare();
  });
  if (Status status = backend.agree(prepared); !status) return said_once(options, backend, status.error());
  if (Status status = backend.agree(training->start()); !status) return said_once(options, backend, status.error());
  const Result<Trained> trained = training->train();
  if (Status status = backend.agree(status_of(trained)); !status) return said_once(options, backend, status.error());
  if (!options.save.empty()) {
    const Result<TrainingState> state = training->fetch();
    const Status saved = state && is_first ? attempt([&] { return training->write(*state); }) : status_of(state);
    if (Status status = backend.agree(saved); !status) return said_once(options, backend, status.error());
  }
  if (is_first) print(options.plan.format == "json" ? write_json(trained_json(options, *trained)) : trained_text(options, *trained));
  return 0;
}

}  // namespace meshwright::host
