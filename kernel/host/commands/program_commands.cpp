#include "commands/program_commands.h"

#include <filesystem>

#include "commands/open_plan.h"
#include "commands/plan_verification.h"
#include "commands/runnable_plan.h"
#include "files/json.h"
#include "files/write_file.h"
#include "meshwright/pipeline_step.h"
#include "plugins/asked_price.h"
#include "plugins/program_source.h"
#include "report/memory_json.h"
#include "report/memory_text.h"
#include "report/pipeline_report.h"
#include "report/price_text.h"
#include "report/report_error.h"
#include "report/shrink_report.h"
#include "shrink_plan.h"

namespace meshwright::host {

namespace {

struct TriedPlan {
  Verification result;
  std::optional<Shrinkage> shrinkage;  // of a model that was made smaller
};

Result<TriedPlan> verified(const ProgramOptions& options) {
  Result<OpenAnyPlan> opened = open_any_plan(options);
  if (!opened) return opened.error();
  ProgramTools& tools = opened->tools;
  const ShrinkTools shrink{*tools.ops, tools.profile, *tools.conversions};
  TriedPlan made;
  const auto take = [&](auto shrunk, auto& plan) -> Status {
    if (!shrunk) return shrunk.error();
    plan = std::move(shrunk->plan);
    made.shrinkage = std::move(shrunk->shrinkage);
    tools.profile.bucket_bytes = made.shrinkage->narrowed(tools.profile.bucket_bytes);
    return Done{};
  };
  if (options.shrink) {
    auto* pipeline = std::get_if<PipelinePlan>(&opened->plan);
    const Status status = pipeline != nullptr ? take(shrink_pipeline(*pipeline, shrink), *pipeline) : take(shrink_plan(std::get<Plan>(opened->plan), shrink), std::get<Plan>(opened->plan));
    if (!status) return status.error();
  }
  Result<Verification> result = verify_plan(std::move(opened->plan), tools, opened->host, {options.steps, options.exact, options.shrink});
  if (!result) return result.error();
  made.result = std::move(*result);
  return made;
}

Json verification_json(const Verification& result) {
  Json json;
  json.add("equal", result.equal);
  json.add("max_relative_error", result.max_relative_error);
  json.add("worst_tensor", result.worst_tensor);
  json.add("worst_rank", result.worst_rank);
  json.add("steps", result.steps);
  json.add("loss_serial", result.loss_serial);
  json.add("loss_parallel", result.loss_parallel);
  json.add("bytes_sent_predicted", result.bytes_sent_predicted);
  json.add("bytes_sent_measured", result.bytes_sent_measured);
  json.add("peak_bytes_predicted", result.peak_bytes_predicted);
  json.add("peak_bytes_measured", result.peak_bytes_measured);
  json.add("arena_bytes", result.arena_bytes);
  if (!result.group_peaks.empty()) {
    Json::Array stages;
    for (const Verification::GroupPeak& peak : result.group_peaks) stages.push_back(Json().add("peak_bytes_predicted", peak.predicted).add("peak_bytes_measured", peak.measured));
    json.add("stages", std::move(stages));
  }
  json.add("ranks", result.ranks);
  json.add("tensors_compared", result.tensors);
  Json::Array ties;
  for (const NearTies& tie : result.near_ties) ties.push_back(Json().add("node", tie.node).add("rows", tie.rows).add("near_ties", tie.ties));
  json.add("near_ties", std::move(ties));
  Json::Array not_computed;
  for (const std::string& op : result.not_computed) not_computed.push_back(op);
  json.add("not_computed", std::move(not_computed));
  if (!result.problem.empty()) json.add("problem", result.problem);
  return json;
}

std::string verification_text(const Verification& result) {
  char text[1024];
  std::snprintf(text, sizeof text,
                "%lld ranks %s what 1 computes over %lld step%s: largest relative error %.2g (%s, rank %lld)\n"
                "  loss            %.9g on one device, %.9g on %lld ranks\n"
                "  bytes sent      %lld predicted, %lld measured\n"
                "  peak per rank   %lld bytes predicted, %lld measured\n"
                "  arena per rank  %lld bytes, in which all but the optimizer's state lies\n"
                "  tensors         %lld compared\n",
                static_cast<long long>(result.ranks), result.equal ? "compute" : "do NOT compute", static_cast<long long>(result.steps), result.steps == 1 ? "" : "s", result.max_relative_error,
                result.worst_tensor.c_str(), static_cast<long long>(result.worst_rank), result.loss_serial,
                result.loss_parallel, static_cast<long long>(result.ranks), static_cast<long long>(result.bytes_sent_predicted),
                static_cast<long long>(result.bytes_sent_measured), static_cast<long long>(result.peak_bytes_predicted),
                static_cast<long long>(result.peak_bytes_measured), static_cast<long long>(result.arena_bytes), static_cast<long long>(result.tensors));
  std::string all = text;
  for (std::size_t g = 0; g < result.group_peaks.size(); ++g) {
    all += "  devices " + std::to_string(g) + "       " + std::to_string(result.group_peaks[g].predicted) + " bytes at most predicted, " + std::to_string(result.group_peaks[g].measured) + " measured\n";
  }
  for (const NearTies& tie : result.near_ties) {
    all += "  near a tie      " + std::to_string(tie.ties) + " of " + std::to_string(tie.rows) + " rows of '" + tie.node +
           "': ranks that round differently may choose differently there\n";
  }
  for (const std::string& op : result.not_computed) {
    all += "  not computed    " + op + ": nobody here computes it; all else was checked, with other numbers in its place\n";
  }
  return all;
}

// What a backend is asked to do that runs nothing.
struct Asked {
  Report report;
  std::vector<EmittedFile> files;
  MemoryAccount account;
  std::string memory;  // its peak and the account, for people
};

Result<Asked> ask(const Plan& plan, PluginHost& host, const ProgramTools& tools, const std::string& id, bool run, std::string only_file = {}) {
  Result<std::shared_ptr<Backend>> backend = host.create<Backend>("backend", id);
  if (!backend) return backend.error();
  Result<Program> program = make_program(plan, tools);
  if (!program) return program.error();
  const Result<std::unique_ptr<EmitterTable>> emitters = emitters_for(host, id);
  if (!emitters) return emitters.error();
  const BackendInput input{*program, *tools.ops, tools.profile, nullptr, {}, nullptr, {}, &plan, emitters->get(), std::move(only_file), tools.altering};
  Asked asked;
  if (run) {
    Result<Report> report = (*backend)->run(input);
    if (!report) return report.error();
    asked.report = *report;
    const MemoryProfile profile = memory_profile(*program);
    asked.account = memory_account(plan.cluster, *program, profile);
    const std::string of_device = account_text(asked.account, plan.cluster.device.memory_bytes);
    asked.memory = peak_text(*program, profile) + (of_device.empty() ? "" : "\n" + of_device);
  }
  Result<std::vector<EmittedFile>> files = (*backend)->emit(input);
  if (!files) return add_context("backend '" + id + "'", files.error());
  asked.files = std::move(*files);
  return asked;
}

Result<std::vector<EmittedFile>> emit_pipeline(const PipelinePlan& pipeline, PluginHost& host, const ProgramTools& tools, const std::string& id) {
  Result<std::shared_ptr<Backend>> backend = host.create<Backend>("backend", id);
  if (!backend) return backend.error();
  const Result<std::unique_ptr<EmitterTable>> emitters = emitters_for(host, id);
  if (!emitters) return emitters.error();
  const Result<StagePrograms> made = make_programs(pipeline, tools);
  if (!made) return made.error();
  std::vector<BackendInput> stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    stages.push_back({made->programs[s], *tools.ops, made->profiles[s], nullptr, {}, nullptr, {}, &pipeline.stages[s], emitters->get(), {}, tools.altering});
  }
  Result<std::vector<EmittedFile>> files = (*backend)->emit_stages(pipeline, stages);
  if (!files) return add_context("backend '" + id + "'", files.error());
  return files;
}

// Says behind each text that stands for another plan what that takes.
Status add_prices(const ProgramOptions& options, const OpenAnyPlan& opened, std::vector<EmittedFile>& files) {
  for (EmittedFile& file : files) {
    if (!file.stands_for) continue;
    if (!opened.host.config().emit.boolean("price")) continue;
    const Result<AskedPrice> price = price_asked(*file.stands_for, opened.plan, options.config, options.set);
    if (!price) return price.error();
    file.text += price_text(*price);
  }
  return Done{};
}

// What a plan of one stage or of several is written as.
Result<std::vector<EmittedFile>> emitted(const ProgramOptions& options) {
  Result<OpenAnyPlan> opened = open_any_plan(options);
  if (!opened) return opened.error();
  const std::string id = options.backend.empty() ? opened->host.config().emit.text("backend") : options.backend;
  Result<std::vector<EmittedFile>> files = std::vector<EmittedFile>();
  if (const auto* pipeline = std::get_if<PipelinePlan>(&opened->plan)) {
    files = emit_pipeline(*pipeline, opened->host, opened->tools, id);
  } else {
    Result<Asked> asked = ask(std::get<Plan>(opened->plan), opened->host, opened->tools, id, false);
    if (!asked) return asked.error();
    files = std::move(asked->files);
  }
  if (!files) return files;
  if (Status status = add_prices(options, *opened, *files); !status) return status.error();
  return files;
}

}  // namespace

int run_verify(const ProgramOptions& options) {
  keep_freed_memory();
  const Result<TriedPlan> made = verified(options);
  if (!made) return fail(options, made.error());
  const Verification& result = made->result;
  if (options.format == "json") {
    Json json = verification_json(result);
    if (made->shrinkage) json.add("shrunk", shrinkage_json(*made->shrinkage));
    print(write_json(json));
  } else {
    print((made->shrinkage ? shrinkage_text(*made->shrinkage) : "") + verification_text(result));
  }
  if (result.equal) return 0;
  return report_error(internal_error("the program does not compute what one device computes: " +
                                     (result.problem.empty() ? "'" + result.worst_tensor + "' differs" : result.problem)));
}

int run_emit(const ProgramOptions& options) {
  const Result<std::vector<EmittedFile>> files = emitted(options);
  if (!files) return fail(options, files.error());
  if (options.output.empty()) {
    for (const EmittedFile& file : *files) print(file.text);
    return 0;
  }
  for (const EmittedFile& file : *files) {
    const std::string path = (std::filesystem::path(options.output) / file.name).string();
    if (const Status written = write_file_atomically(path, file.text); !written) return report_error(written.error());
  }
  return 0;
}

namespace {

// Its numbers are those of the programs as they are made now, not what the file says.
int simulate_pipeline(const ProgramOptions& options, const PipelinePlan& pipeline, const ProgramTools& tools) {
  const Result<StagePrograms> made = make_programs(pipeline, tools);
  if (!made) return fail(options, made.error());
  const Result<PipelineStep> step = simulate_stages(made->programs, *tools.ops, made->profiles, pipeline.orders);
  if (!step) return fail(options, step.error());
  if (!options.output.empty()) {
    if (const Status written = write_file_atomically(options.output, step_trace(pipeline, *step)); !written) return report_error(written.error());
  }
  if (!options.picture.empty()) {
    const Result<std::string> picture = step_svg(pipeline, *step);
    if (!picture) return fail(options, picture.error());
    if (const Status written = write_file_atomically(options.picture, *picture); !written) return report_error(written.error());
  }
  print(options.format == "json" ? write_json(step_json(pipeline, *step)) : step_text(pipeline, *step));
  return 0;
}

}  // namespace

int run_simulate(const ProgramOptions& options) {
  Result<OpenAnyPlan> opened = open_any_plan(options);
  if (!opened) return fail(options, opened.error());
  if (const auto* pipeline = std::get_if<PipelinePlan>(&opened->plan)) return simulate_pipeline(options, *pipeline, opened->tools);
  if (!options.picture.empty()) return report_error(bad_input("--svg draws the stages of a pipeline, and " + options.plan + " has one stage; --trace writes its time line"));
  const Result<Asked> asked = ask(std::get<Plan>(opened->plan), opened->host, opened->tools, "simulate", true, options.output.empty() ? "timeline.txt" : "");
  if (!asked) return fail(options, asked.error());
  std::string timeline;
  for (const EmittedFile& file : asked->files) {
    if (file.name == "timeline.txt") timeline = file.text;
    if (options.output.empty() || file.name != "trace.json") continue;
    if (const Status written = write_file_atomically(options.output, file.text); !written) return report_error(written.error());
  }
  if (options.format != "json") {
    print(timeline + "\n" + asked->memory);
    return 0;
  }
  Json json;
  json.add("ranks", asked->report.ranks);
  json.add("step_seconds", asked->report.step_seconds);
  json.add("bytes_sent", asked->report.bytes_sent);
  json.add("peak_bytes", asked->report.peak_bytes);
  json.add("peak_instruction", asked->report.peak_instruction);
  json.add("memory", account_json(asked->account));
  print(write_json(json));
  return 0;
}

}  // namespace meshwright::host
