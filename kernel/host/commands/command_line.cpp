#include "commands/command_line.h"

#include <CLI/CLI.hpp>
#include <string>

#include "commands/compare_command.h"
#include "commands/calibrate_command.h"
#include "commands/detect_command.h"
#include "commands/explain_command.h"
#include "commands/iopddl_command.h"
#include "commands/measure_command.h"
#include "commands/place_command.h"
#include "commands/plan_command.h"
#include "commands/plugins_command.h"
#include "commands/profile_command.h"
#include "commands/program_commands.h"
#include "commands/run_command.h"
#include "commands/schedule_command.h"
#include "config/log_sink.h"
#include "config/plan_options.h"
#include "files/count_limits.h"
#include "meshwright/abi_tag.h"
#include "meshwright/placement.h"
#include "meshwright/schedule.h"

namespace meshwright::host {
namespace {

constexpr const char* kSetHelp = "override a key of the configuration: section.key=value (repeatable)";

void add_format(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
}

void add_allow_changed(CLI::App& command, bool& allow) {
  command.add_flag("--allow-changed-model", allow, "use the plan though its model's file is another one now");
}

// What is planned for, in all commands that plan.
void add_planning(CLI::App& command, PlanOptions& options) {
  command.add_option("MODEL", options.model, "the model, a .pt2 or .onnx file")->required();
  command.add_option("--cluster", options.cluster, "the cluster, a TOML file");
  command.add_option("--config", options.config, "the configuration, a TOML file");
  command.add_option("--mesh", options.mesh, "shape of the mesh, such as 2x4; the best of several if absent");
  command.add_option("--memory-budget", options.memory_budget, "memory per device, such as 40GiB");
  command.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(command, options.format);
}

void add_compare(CLI::App& app, CompareOptions& options, int& exit_code) {
  CLI::App& compare = *app.add_subcommand("compare", "what several solvers find for a model on a cluster, in one table");
  add_planning(compare, options.plan);
  compare.add_option("--intra", options.solvers, "solvers, separated by commas; with --inter that of [search] intra if absent")->delimiter(',')->allow_extra_args(false);
  compare.add_option("--stages", options.stages, "numbers of pipeline stages, separated by commas: rows of each; what [search] stages says if absent")->delimiter(',')->allow_extra_args(false);
  compare.add_option("--schedule", options.schedules, "schedules of several stages, separated by commas: rows of each; what [search] schedule says if absent")->delimiter(',')->allow_extra_args(false);
  compare.add_option("--inter", options.inters, "who chooses the number of stages, separated by commas: rows of each, such as grid,manual,none")->delimiter(',')->allow_extra_args(false);
  compare.add_flag("!--no-verify", options.verify, "do not run the plans on simulated ranks");
  compare.callback([&options, &exit_code] { exit_code = run_compare(options); });
}

void add_plan(CLI::App& app, PlanOptions& options, int& exit_code) {
  CLI::App& plan = *app.add_subcommand("plan", "find the fastest plan for a model on a cluster");
  add_planning(plan, options);
  plan.add_option("--devices", options.devices, "plan for the first so many devices of the cluster; several numbers, separated by commas: a table of what each takes, and where adding devices stops paying")->delimiter(',')->allow_extra_args(false);
  plan.add_option("--intra", options.intra, "plugin that chooses the strategies");
  plan.add_option("-o,--output", options.output, "where the plan is written");
  plan.add_option("--known", options.known, "a plan of a tighter budget, a file that `plan -o` wrote: it is the answer where nothing faster is found");
  plan.add_option("--top", options.top, "so many of the best distinct plans, ranked by the simulated step; the first is the plan, and "
                                        "with -o plan.json the others are plan.2.json, plan.3.json, ...")
      ->check(CLI::Range(1, kMostPlans));
  plan.callback([&options, &exit_code] { exit_code = run_plan(options); });
}

CLI::App& add_program_command(CLI::App& app, const char* name, const char* help, ProgramOptions& options, int& exit_code,
                              int (*run)(const ProgramOptions&)) {
  CLI::App& command = *app.add_subcommand(name, help);
  command.add_option("PLAN", options.plan, "the plan, a file that `plan -o` wrote")->required();
  command.add_option("--config", options.config, "the configuration, a TOML file");
  command.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_allow_changed(command, options.allow_changed_model);
  command.callback([&options, &exit_code, run] { exit_code = run(options); });
  return command;
}

void add_programs(CLI::App& app, ProgramOptions& options, int& exit_code) {
  CLI::App& verify = add_program_command(app, "verify", "run a plan on simulated ranks, compare it with one device", options,
                                         exit_code, run_verify);
  verify.add_option("--steps", options.steps, "training steps, in which parameters, the optimizer's state and buffers last")->check(CLI::Range(1, 1000))->capture_default_str();
  verify.add_flag("--exact", options.exact, "in float64, each element within 1e-9 of the largest in its row");
  verify.add_flag("--shrink", options.shrink, "of a model that is too large to run here: few of its blocks and small sizes, with the plan's layouts, stages, schedule and recomputation; says what became smaller");
  add_format(verify, options.format);
  CLI::App& emit = add_program_command(app, "emit", "write down what a plan's ranks execute", options, exit_code, run_emit);
  emit.add_option("--backend", options.backend, "the plugin that writes");
  emit.add_option("-o,--output", options.output, "the folder to write into; the terminal if absent");
  CLI::App& simulate =
      add_program_command(app, "simulate", "time line and memory curve of a plan", options, exit_code, run_simulate);
  simulate.add_option("--trace", options.output, "where a Chrome trace is written (opens in Perfetto)");
  simulate.add_option("--svg", options.picture, "of several stages: where a picture of when each runs what is written");
  add_format(simulate, options.format);
}

void add_run(CLI::App& app, RunOptions& options, int& exit_code) {
  CLI::App& command = *app.add_subcommand("run", "train by a plan: losses, seconds and bytes of each step");
  command.add_option("PLAN", options.plan.plan, "the plan, a file that `plan -o` wrote")->required();
  options.plan.backend = "reference";
  command.add_option("--backend", options.plan.backend, "the plugin that runs it: reference (ranks are threads), or mpi (ranks are processes: mpirun -n RANKS meshwright run ...)")->capture_default_str();
  command.add_option("--steps", options.steps, "training steps")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  command.add_option("--seed", options.seed, "of inputs, and of weights that the model's file does not hold; 0 if absent, or that of --resume");
  command.add_option("--save", options.save, "where parameters, the optimizer's state and buffers are written after the last step, a file of safetensors");
  command.add_option("--resume", options.resume, "a file that --save wrote, from which training goes on; by any plan of the same model");
  command.add_option("--config", options.plan.config, "the configuration, a TOML file");
  command.add_option("--set", options.plan.set, kSetHelp)->allow_extra_args(false);
  add_format(command, options.plan.format);
  add_allow_changed(command, options.plan.allow_changed_model);
  command.callback([&options, &exit_code] { exit_code = run_training(options); });
}

void add_calibrate(CLI::App& app, CalibrateOptions& options, int& exit_code) {
  CLI::App& command = *app.add_subcommand("calibrate", "fit a device's coefficients to steps that were measured");
  command.add_option("ROWS", options.rows, "a CSV file with the columns plan, seconds and, if needed, recomputes (0 or 1)")->required();
  command.add_option("--coefficients", options.coefficients, "which ones, separated by commas")->capture_default_str();
  command.add_option("-o,--output", options.output, "where the device's file is written");
  command.add_option("--config", options.config, "the configuration, a TOML file");
  command.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(command, options.format);
  command.callback([&options, &exit_code] { exit_code = run_calibrate(options); });
}

void add_measure(CLI::App& app, MeasureOptions& options, int& exit_code) {
  CLI::App& command = *app.add_subcommand("measure", "ask a profiler about a device, and write the device's file");
  command.add_option("--profiler", options.profiler, "the plugin that is asked")->capture_default_str();
  command.add_option("--device", options.device,
                     "a device's file, for what the plugin does not say; a CPU with this machine's memory if absent");
  command.add_option("-o,--output", options.output, "where the device's file is written")->required();
  command.add_option("--config", options.config, "the configuration, a TOML file");
  command.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(command, options.format);
  command.callback([&options, &exit_code] { exit_code = run_measure(options); });
}

void add_detect(CLI::App& app, DetectOptions& options, int& exit_code) {
  CLI::App& command = *app.add_subcommand("detect", "find the levels of a cluster's links, and write the cluster's file");
  CLI::Option& from = *command.add_option("--from", options.from, "a CSV file with the latency and the bandwidth of each pair of devices; measured between the ranks at hand if absent");
  command.add_option("--transport", options.transport, "the plugin that measures, between ranks that its launcher started (mpi: mpirun)")->excludes(&from)->capture_default_str();
  command.add_option("--keep", options.keep, "where what was measured is written, a file for --from")->excludes(&from);
  command.add_option("--device", options.device, "the device's file, which the cluster's will name; device.toml beside it if absent");
  command.add_option("-o,--output", options.output, "where the cluster's file is written")->required();
  command.add_option("--config", options.config, "the configuration, a TOML file");
  command.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(command, options.format);
  command.callback([&options, &exit_code, &from] {
    options.is_recorded = !from.empty();
    exit_code = run_detect(options);
  });
}

void add_explain(CLI::App& app, ExplainOptions& options, int& exit_code) {
  CLI::App& command = *app.add_subcommand("explain", "why a plan does what it does, and what the alternatives would cost");
  command.add_option("PLAN", options.plan.plan, "the plan, a file that `plan -o` wrote")->required();
  command.add_option("NODE", options.name, "a node, parameter or value; what takes most time if absent");
  command.add_option("--config", options.plan.config, "the configuration with which it was planned");
  command.add_option("--set", options.plan.set, kSetHelp)->allow_extra_args(false);
  command.add_option("--alternatives", options.most, "how many of them are searched for")->check(CLI::Range(1, kMostPlans))->capture_default_str();
  add_format(command, options.plan.format);
  add_allow_changed(command, options.plan.allow_changed_model);
  command.add_option("--stage", options.plan.stage, "of a plan of several stages: the one that is looked at, from 0");
  command.callback([&options, &exit_code] { exit_code = run_explain(options); });
}

void add_profile(CLI::App& app, ProfileOptions& options, int& exit_code) {
  CLI::App& profile = *app.add_subcommand("profile", "what a model on one device, or one device of a plan, holds in memory");
  profile.add_option("MODEL|PLAN", options.input, "a model, or a file that `plan -o` wrote")->required();
  profile.add_option("--config", options.config, "the configuration, a TOML file");
  profile.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  profile.add_option("--stage", options.stage, "of a plan of several stages: the one that is looked at, from 0");
  profile.add_option("--svg", options.svg, "where the curve is drawn");
  profile.add_option("--nodes", options.nodes, "rows of the table of nodes, or all")->capture_default_str();
  add_format(profile, options.format);
  add_allow_changed(profile, options.allow_changed_model);
  profile.callback([&options, &exit_code] { exit_code = run_profile(options); });
}

void add_iopddl(CLI::App& app, IopddlOptions& options, int& exit_code) {
  CLI::App& iopddl = *app.add_subcommand("iopddl", "solve a problem file of the contest on intra-operator parallelism");
  iopddl.add_option("FILE", options.input, "the problem, a JSON file")->required();
  iopddl.add_option("SECONDS", options.seconds, "of wall time, for everything")->required();
  iopddl.add_option("--intra", options.intra, "plugin that chooses the strategies");
  iopddl.add_option("--config", options.config, "the configuration, a TOML file");
  iopddl.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(iopddl, options.format);
  iopddl.callback([&options, &exit_code] { exit_code = run_iopddl(options); });
}

void add_place(CLI::App& app, PlaceOptions& options, int& exit_code) {
  CLI::App& place = *app.add_subcommand("place", "cut a graph of costs into stages: a problem file of Tarnawski et al., Piper or PipeDream");
  place.add_option("FILE", options.input, "the problem, in its authors' format")->required();
  place.add_option("--inter", options.inter, "plugin that chooses the stages; the one of the file's problem if absent");
  place.add_option("--devices", options.devices, "accelerators; as many as the file says if absent")->check(CLI::Range(1U, kMostPlacementDevices));
  place.add_option("--memory", options.memory, "of a device, such as 8GiB; what the file says if absent");
  place.add_option("--bandwidth", options.bandwidth, "of a device in a second, such as 25GiB; what the file says if absent, and 1.25GB where it says nothing");
  place.add_option("--config", options.config, "the configuration, a TOML file");
  place.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  add_format(place, options.format);
  place.callback([&options, &exit_code] { exit_code = run_place(options); });
}

void add_schedule(CLI::App& app, ScheduleOptions& options, int& exit_code) {
  CLI::App& schedule = *app.add_subcommand("schedule", "what a pipeline schedule does, without a model: order, time, what stages hold");
  schedule.add_option("ID", options.id, "a plugin of kind schedules, such as one_f_one_b")->required();
  schedule.add_option("--stages", options.stages, "stages of the pipeline, which compute beside each other")->check(CLI::Range(1U, kMostScheduleStages));
  schedule.add_option("--microbatches", options.microbatches, "microbatches of a step")->check(CLI::Range(1U, kMostScheduleMicrobatches));
  schedule.add_option("--chunks", options.chunks, "chunks of the model on each stage; the schedule's usual number if absent")->check(CLI::Range(1U, kMostScheduleChunks));
  schedule.add_option("--file", options.file, "for from_csv: the schedule, in PyTorch's CSV format, which has the numbers above");
  schedule.add_option("--config", options.config, "the configuration, a TOML file");
  schedule.add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  schedule.add_option("--format", options.format, "text, json or svg")->check(CLI::IsMember({"text", "json", "svg"}))->capture_default_str();
  schedule.callback([&options, &exit_code] { exit_code = run_schedule(options); });
}

CLI::App& add_plugins_command(CLI::App& parent, const char* name, const char* help, PluginsOptions& options,
                              int& exit_code, int (*run)(const PluginsOptions&)) {
  CLI::App& command = *parent.add_subcommand(name, help);
  add_format(command, options.format);
  command.callback([&options, &exit_code, run] { exit_code = run(options); });
  return command;
}

void add_plugins(CLI::App& app, PluginsOptions& options, int& exit_code) {
  CLI::App& plugins = *app.add_subcommand("plugins", "list, describe and check plugins");
  plugins.require_subcommand(1);
  CLI::App& list = add_plugins_command(plugins, "list", "all plugins that are found", options, exit_code, list_plugins);
  CLI::App& describe =
      add_plugins_command(plugins, "describe", "one plugin and its configuration", options, exit_code, describe_plugin);
  describe.add_option("ID", options.subject, "the plugin's id, or KIND/ID")->required();
  CLI::App& coverage = add_plugins_command(plugins, "coverage", "how many of PyTorch's ops have a rule", options, exit_code,
                                           count_coverage);
  for (CLI::App* command : {&list, &describe, &coverage}) {
    command->add_option("--config", options.config, "the configuration whose plugin paths are searched too");
    command->add_option("--set", options.set, kSetHelp)->allow_extra_args(false);
  }
  CLI::App& check = add_plugins_command(plugins, "check", "whether a file is a plugin that would be accepted", options,
                                        exit_code, check_plugin);
  check.add_option("FILE", options.subject, "the shared library")->required();
  check.add_option("--cases", options.cases, "cases of an op family to execute; NAME.cases.txt beside FILE if absent");
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  CLI::App app{"Meshwright turns a model for one device into a plan for a cluster.", "meshwright"};
  app.set_version_flag("--version", "meshwright " MESHWRIGHT_KERNEL_VERSION);
  app.require_subcommand(1);
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "say more about what is done");
  app.parse_complete_callback([&verbose] { install_log_sink(verbose ? LogLevel::debug : LogLevel::warning); });

  int exit_code = 0;
  PluginsOptions plugins_options;
  add_plugins(app, plugins_options, exit_code);
  PlanOptions plan_options;
  add_plan(app, plan_options, exit_code);
  CompareOptions compare_options;
  add_compare(app, compare_options, exit_code);
  CalibrateOptions calibrate_options;
  add_calibrate(app, calibrate_options, exit_code);
  MeasureOptions measure_options;
  add_measure(app, measure_options, exit_code);
  DetectOptions detect_options;
  add_detect(app, detect_options, exit_code);
  ExplainOptions explain_options;
  add_explain(app, explain_options, exit_code);
  ProfileOptions profile_options;
  add_profile(app, profile_options, exit_code);
  PlaceOptions place_options;
  add_place(app, place_options, exit_code);
  IopddlOptions iopddl_options;
  add_iopddl(app, iopddl_options, exit_code);
  ScheduleOptions schedule_options;
  add_schedule(app, schedule_options, exit_code);
  ProgramOptions program_options;
  add_programs(app, program_options, exit_code);
  RunOptions run_options;
  add_run(app, run_options, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version come this way too, with code 0; what is left is wrong usage.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

}  // namespace meshwright::host
