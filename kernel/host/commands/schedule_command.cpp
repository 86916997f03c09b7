#include "commands/schedule_command.h"

#include <cstdio>
#include <utility>

#include "config/toml_config.h"
#include "files/json.h"
#include "meshwright/schedule.h"
#include "plugins/plugin_host.h"
#include "report/report_error.h"
#include "report/schedule_report.h"
#include "report/schedule_svg.h"

namespace meshwright::host {

namespace {

constexpr const char* kKind = "schedules";
constexpr std::size_t kMostDrawn = 100'000;  // events; no viewer shows more

// A plugin that serves a suffix reads a file.
Status check_options(const ScheduleOptions& options, bool reads_file) {
  if (!options.file.empty() && !reads_file) {
    return bad_input("--file " + options.file + ": " + options.id + " reads no file; leave it out, or take from_csv");
  }
  if (reads_file || (options.stages > 0 && options.microbatches > 0)) return Done{};
  return bad_input(options.id + " needs " + (options.stages == 0 ? "--stages" : "--microbatches") + ", the number of " +
                   (options.stages == 0 ? "stages" : "microbatches"));
}

Result<PipelineSchedule> make_schedule(const ScheduleOptions& options) {
  Result<ConfigTree> tree = read_config(options.config, options.set);
  if (!tree) return tree.error();
  if (!options.file.empty()) {
    ConfigSection& section = tree->sections[plugin_section(kKind, options.id)];
    if (section.where.empty()) section.where = "--file";
    section.keys["file"] = {options.file, "--file", ""};
  }
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  const Result<std::vector<std::string>> suffixes = host->served_by(kKind, options.id);
  if (!suffixes) return suffixes.error();
  if (Status status = check_options(options, !suffixes->empty()); !status) return status.error();
  const Result<std::shared_ptr<ScheduleMaker>> maker = host->create<ScheduleMaker>(kKind, options.id);
  if (!maker) return maker.error();
  return (*maker)->make({options.stages, options.chunks, options.microbatches});
}

Result<std::string> text_of(const TimedSchedule& timed, const std::string& format) {
  if (format == "json") return write_json(schedule_json(timed));
  if (format == "text") return schedule_text(timed);
  std::size_t events = 0;
  for (const auto& order : timed.schedule.order) events += order.size();
  if (events <= kMostDrawn) return schedule_svg(timed);
  return bad_input("a picture of " + std::to_string(events) + " events shows nothing; at most " +
                   std::to_string(kMostDrawn) + " are drawn: take fewer microbatches, or --format json");
}

}  // namespace

int run_schedule(const ScheduleOptions& options) {
  Result<PipelineSchedule> schedule = make_schedule(options);
  if (!schedule) return report_error(schedule.error());
  Result<PipelineTimeline> found = timeline(*schedule, unit_ticks(schedule->shape));
  if (!found) return report_error(found.error());
  const Result<std::string> text = text_of({options.id, std::move(*schedule), std::move(*found)}, options.format);
  if (!text) return report_error(text.error());
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

}  // namespace meshwright::host
