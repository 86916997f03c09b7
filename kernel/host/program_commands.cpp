#include "program_commands.h"

#include <cstdio>
#include <filesystem>

#include "file_hash.h"
#include "in_float32.h"
#include "json.h"
#include "memory_text.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"
#include "plan_reader.h"
#include "program_source.h"
#include "report_error.h"
#include "sources.h"
#include "toml_config.h"
#include "verify.h"
#include "write_file.h"

namespace meshwright::host {

namespace {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// A plan, opened with the plugins that work on it.
struct Opened {
  Plan plan;
  PluginHost host;
  ProgramTools tools;
};

Result<Opened> open(const ProgramOptions& options) {
  Result<Plan> plan = read_plan(options.plan);
  if (!plan) return plan.error();
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  Result<ProgramTools> tools = open_tools(*host, *plan);
  if (!tools) return tools.error();
  return Opened{std::move(*plan), std::move(*host), std::move(*tools)};
}

// Names the plan, unless the message does.
int fail(const ProgramOptions& options, const Error& error) {
  return report_error(error.message.starts_with(options.plan) ? error : add_context(options.plan, error));
}

// What the model's file holds of weights and buffers; nothing where there is none, or the file is not the plan's.
Result<std::map<std::string, Tensor>> weights_of(Opened& opened) {
  const std::string& path = opened.plan.model_path;
  std::map<std::string, Tensor> none;
  if (!std::filesystem::exists(path) || hash_file(path) != opened.plan.model_hash) {
    log(LogLevel::warning, "verify", path + " is not there as it was planned: weights are drawn");
    return none;
  }
  Result<std::string> id = opened.host.frontend_for(path);
  if (!id) return id.error();
  Result<std::shared_ptr<Frontend>> frontend = opened.host.create<Frontend>("frontend", *id);
  if (!frontend) return frontend.error();
  return (*frontend)->tensors(path);
}

Result<Verification> verify_plan(const ProgramOptions& options) {
  Result<Opened> opened = open(options);
  if (!opened) return opened.error();
  if (computes_in_half(opened->plan.graph) || is_half(opened->plan.training.reduce_dtype.value_or(DType::float32))) {
    log(LogLevel::warning, "verify", "the plan computes in half precision; it is verified in float32, so bytes are those of float32");
    opened->plan.training.param_dtype.reset();
    opened->plan.training.reduce_dtype.reset();
    opened->plan.training.master_dtype = DType::float32;
    retype(opened->plan.graph, DType::float32);
  }
  Result<Program> program = make_program(opened->plan, opened->tools);
  if (!program) return program.error();
  Result<std::map<std::string, Tensor>> weights = weights_of(*opened);
  if (!weights) return weights.error();
  for (auto& [name, tensor] : *weights) tensor = in_float32(std::move(tensor));
  Result<std::map<ValueId, Tensor>> sources = sample_sources(opened->plan.graph, *weights, 0);
  if (!sources) return sources.error();
  Result<std::vector<std::map<ValueId, Tensor>>> further = sample_microbatches(opened->plan.graph, *weights, opened->plan.training.microbatches);
  if (!further) return further.error();
  weights->clear();
  Result<std::shared_ptr<Backend>> backend = opened->host.create<Backend>("backend", "reference");
  if (!backend) return backend.error();
  Result<std::unique_ptr<KernelTable>> kernels = kernels_for(opened->host, "reference");
  if (!kernels) return kernels.error();
  return verify({opened->plan.graph, *program, *opened->tools.ops, opened->tools.profile, kernels->get(), **backend, *sources, 1e-4, 1e-3,
                 *further});
}

Json verification_json(const Verification& result) {
  Json json;
  json.add("equal", result.equal);
  json.add("max_relative_error", result.max_relative_error);
  json.add("worst_tensor", result.worst_tensor);
  json.add("worst_rank", result.worst_rank);
  json.add("loss_serial", result.loss_serial);
  json.add("loss_parallel", result.loss_parallel);
  json.add("bytes_sent_predicted", result.bytes_sent_predicted);
  json.add("bytes_sent_measured", result.bytes_sent_measured);
  json.add("peak_bytes_predicted", result.peak_bytes_predicted);
  json.add("peak_bytes_measured", result.peak_bytes_measured);
  json.add("ranks", result.ranks);
  json.add("tensors_compared", result.tensors);
  Json::Array ties;
  for (const NearTies& tie : result.near_ties) ties.push_back(Json().add("node", tie.node).add("rows", tie.rows).add("near_ties", tie.ties));
  json.add("near_ties", std::move(ties));
  if (!result.problem.empty()) json.add("problem", result.problem);
  return json;
}

std::string verification_text(const Verification& result) {
  char text[1024];
  std::snprintf(text, sizeof text,
                "%lld ranks %s what 1 computes: largest relative error %.2g (%s, rank %lld)\n"
                "  loss            %.9g on one device, %.9g on %lld ranks\n"
                "  bytes sent      %lld predicted, %lld measured\n"
                "  peak per rank   %lld bytes predicted, %lld measured\n"
                "  tensors         %lld compared\n",
                static_cast<long long>(result.ranks), result.equal ? "compute" : "do NOT compute", result.max_relative_error,
                result.worst_tensor.c_str(), static_cast<long long>(result.worst_rank), result.loss_serial,
                result.loss_parallel, static_cast<long long>(result.ranks), static_cast<long long>(result.bytes_sent_predicted),
                static_cast<long long>(result.bytes_sent_measured), static_cast<long long>(result.peak_bytes_predicted),
                static_cast<long long>(result.peak_bytes_measured), static_cast<long long>(result.tensors));
  std::string all = text;
  for (const NearTies& tie : result.near_ties) {
    all += "  near a tie      " + std::to_string(tie.ties) + " of " + std::to_string(tie.rows) + " rows of '" + tie.node +
           "': ranks that round differently may choose differently there\n";
  }
  return all;
}

// What a backend is asked to do that runs nothing.
struct Asked {
  Report report;
  std::vector<EmittedFile> files;
  std::string peak;  // of memory, for people
};

Result<Asked> ask(const ProgramOptions& options, const std::string& wanted, bool run) {
  Result<Opened> opened = open(options);
  if (!opened) return opened.error();
  const std::string id = wanted.empty() ? opened->host.config().emit.text("backend") : wanted;
  Result<std::shared_ptr<Backend>> backend = opened->host.create<Backend>("backend", id);
  if (!backend) return backend.error();
  Result<Program> program = make_program(opened->plan, opened->tools);
  if (!program) return program.error();
  const BackendInput input{*program, *opened->tools.ops, opened->tools.profile, nullptr, {}, nullptr, {}};
  Asked asked;
  if (run) {
    Result<Report> report = (*backend)->run(input);
    if (!report) return report.error();
    asked.report = *report;
    asked.peak = peak_text(*program, memory_profile(*program));
  }
  Result<std::vector<EmittedFile>> files = (*backend)->emit(input);
  if (!files) return add_context("backend '" + id + "'", files.error());
  asked.files = std::move(*files);
  return asked;
}

}  // namespace

int run_verify(const ProgramOptions& options) {
  const Result<Verification> result = verify_plan(options);
  if (!result) return fail(options, result.error());
  print(options.format == "json" ? write_json(verification_json(*result)) : verification_text(*result));
  if (result->equal) return 0;
  return report_error(internal_error("the program does not compute what one device computes: " +
                                     (result->problem.empty() ? "'" + result->worst_tensor + "' differs" : result->problem)));
}

int run_emit(const ProgramOptions& options) {
  const Result<Asked> asked = ask(options, options.backend, false);
  if (!asked) return fail(options, asked.error());
  if (options.output.empty()) {
    for (const EmittedFile& file : asked->files) print(file.text);
    return 0;
  }
  for (const EmittedFile& file : asked->files) {
    const std::string path = (std::filesystem::path(options.output) / file.name).string();
    if (const Status written = write_file_atomically(path, file.text); !written) return report_error(written.error());
  }
  return 0;
}

int run_simulate(const ProgramOptions& options) {
  const Result<Asked> asked = ask(options, "simulate", true);
  if (!asked) return fail(options, asked.error());
  std::string timeline;
  for (const EmittedFile& file : asked->files) {
    if (file.name == "timeline.txt") timeline = file.text;
    if (options.output.empty() || file.name != "trace.json") continue;
    if (const Status written = write_file_atomically(options.output, file.text); !written) return report_error(written.error());
  }
  if (options.format != "json") {
    print(timeline + "\n" + asked->peak);
    return 0;
  }
  Json json;
  json.add("ranks", asked->report.ranks);
  json.add("step_seconds", asked->report.step_seconds);
  json.add("bytes_sent", asked->report.bytes_sent);
  json.add("peak_bytes", asked->report.peak_bytes);
  json.add("peak_instruction", asked->report.peak_instruction);
  print(write_json(json));
  return 0;
}

}  // namespace meshwright::host
