#include "commands/profile_command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "commands/open_plan.h"
#include "config/toml_config.h"
#include "files/input_file.h"
#include "files/pipeline_reader.h"
#include "files/write_file.h"
#include "model_reader.h"
#include "plugins/program_source.h"
#include "report/memory_json.h"
#include "report/memory_svg.h"
#include "report/memory_text.h"
#include "report/report_error.h"
#include "serial_plan.h"

namespace meshwright::host {

namespace {

// Whether the file is one that `plan -o` wrote: a JSON object, as no model file is.
Result<bool> is_plan(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad_input(path + ": can't be opened: " + std::strerror(errno));
  char first = 0;
  return file >> first && first == '{';
}

// What is profiled: a program and, of a plan, its cluster.
struct Profiled {
  Program program;
  std::optional<Cluster> cluster;
};

Result<Profiled> program_of_plan(const ProfileOptions& options, PluginHost& host) {
  Result<std::unique_ptr<OpTable>> ops = host.op_table();
  if (!ops) return ops.error();
  Result<std::variant<Plan, PipelinePlan>> read = read_any_plan(options.input, **ops);
  if (!read) return read.error();
  const Result<Plan> plan = plan_of_stage(std::move(*read), options.input, options.stage);
  if (!plan) return plan.error();
  if (Status status = check_planned_model(*plan, options.allow_changed_model); !status) return status.error();
  const Result<ProgramTools> tools = open_tools(host, *plan, std::move(*ops));
  if (!tools) return tools.error();
  Result<Program> program = make_program(*plan, *tools);
  if (!program) return program.error();
  return Profiled{std::move(*program), plan->cluster};
}

Result<Profiled> program_of_model(const std::string& path, PluginHost& host) {
  const Result<std::string> id = host.frontend_for(path);
  if (!id)
    return Error{id.error().code, id.error().message + "; profile reads a model, or a file that `plan -o` wrote"};
  const Result<std::shared_ptr<Frontend>> frontend = host.create<Frontend>("frontend", *id);
  if (!frontend) return frontend.error();
  Result<ProgramTools> tools = open_passes(host, {});
  if (!tools) return tools.error();
  tools->profile = any_profile();
  const Result<TrainedModel> model = read_model(path, **frontend, *tools->ops, host.config().model, host.config().train);
  if (!model) return model.error();
  const std::vector<Output>& outputs = model->graph.outputs;
  if (std::none_of(outputs.begin(), outputs.end(),
                   [](const Output& output) { return output.kind == OutputKind::loss; })) {
    return bad_input(
        "the model has no loss, so it has no backward to profile; --set model.loss=cross_entropy (or mse) gives it "
        "one");
  }
  const Result<ModelAnalysis> analysis = analyze_model(model->graph, *tools->ops);
  if (!analysis) return analysis.error();
  const Result<Plan> plan = serial_plan(tools->context(*analysis, model->training));
  if (!plan) return plan.error();
  Result<Program> program = make_program(*plan, *tools);
  if (!program) return program.error();
  return Profiled{std::move(*program), std::nullopt};
}

Result<Profiled> read_program(const ProfileOptions& options) {
  const Result<bool> plan = is_plan(options.input);
  if (!plan) return plan.error();
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  return *plan ? program_of_plan(options, *host) : program_of_model(options.input, *host);
}

Result<std::size_t> row_limit(const std::string& text) {
  if (text == "all") return std::numeric_limits<std::size_t>::max();
  std::size_t rows = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (problem == std::errc() && end == text.data() + text.size()) return rows;
  return bad_input("--nodes '" + text + "': give a number of rows, or all");
}

}  // namespace

int run_profile(const ProfileOptions& options) {
  const Result<std::size_t> rows = row_limit(options.nodes);
  if (!rows) return report_error(rows.error());
  const Result<Profiled> profiled = read_program(options);
  if (!profiled) {
    const Error& error = profiled.error();
    return report_error(error.message.starts_with(options.input) ? error : add_context(options.input, error));
  }
  const Program& program = profiled->program;
  const MemoryProfile profile = memory_profile(program);
  std::optional<MemoryAccount> account;
  if (profiled->cluster) account = memory_account(*profiled->cluster, program, profile);
  if (!options.svg.empty()) {
    const Status written = write_file_atomically(options.svg, memory_svg(program, profile));
    if (!written) return report_error(written.error());
  }
  std::string text;
  if (options.format == "json")
    text = write_json(memory_json(program, profile, account ? &*account : nullptr));
  else
    text = memory_text(program, profile, *rows);
  const std::string of_device = account ? account_text(*account, profiled->cluster->device.memory_bytes) : "";
  if (options.format != "json" && !of_device.empty()) text += "\n" + of_device;
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace meshwright::host
