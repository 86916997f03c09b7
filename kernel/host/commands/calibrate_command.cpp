#include "commands/calibrate_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "calibration.h"
#include "commands/open_plan.h"
#include "files/device_writer.h"
#include "files/input_file.h"
#include "files/json.h"
#include "files/plan_reader.h"
#include "files/write_file.h"
#include "meshwright/timeline.h"
#include "report/report_error.h"
#include "report/text_table.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kMostRows = 100'000;

struct MeasuredRow {
  std::string plan;
  double seconds = 0;
  bool recomputes = false;
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') cells.emplace_back();
    else if (c != '\r') cells.back() += c;
  }
  return cells;
}

Result<std::vector<MeasuredRow>> read_rows(const std::string& path) {
  if (Status status = check_regular(path); !status) return status.error();
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return bad_input(path + ": no such file, or an empty one");
  std::map<std::string, std::size_t> columns;
  for (const std::string& name : split(line)) columns.try_emplace(name, columns.size());
  for (const char* needed : {"plan", "seconds"}) {
    if (!columns.contains(needed)) return bad_input(path + ":1: there is no column '" + needed + "'; the first line names the columns: plan, seconds and, if needed, recomputes");
  }
  std::vector<MeasuredRow> rows;
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    if (line.empty() || line == "\r") continue;
    const std::string where = path + ":" + std::to_string(number);
    if (rows.size() == kMostRows) return bad_input(where + ": more than " + std::to_string(kMostRows) + " rows");
    const std::vector<std::string> cells = split(line);
    if (cells.size() != columns.size()) return bad_input(where + ": " + std::to_string(cells.size()) + " cells, but " + std::to_string(columns.size()) + " columns");
    MeasuredRow row;
    row.plan = (std::filesystem::path(path).parent_path() / cells[columns["plan"]]).string();
    const std::string& seconds = cells[columns["seconds"]];
    const auto [end, error] = std::from_chars(seconds.data(), seconds.data() + seconds.size(), row.seconds);
    if (error != std::errc() || end != seconds.data() + seconds.size() || !(row.seconds > 0 && row.seconds < 1e6)) {
      return bad_input(where + ": '" + seconds + "' are no seconds of a step");
    }
    if (columns.contains("recomputes")) {
      const std::string& recomputes = cells[columns["recomputes"]];
      if (recomputes != "0" && recomputes != "1") return bad_input(where + ": recomputes is '" + recomputes + "', but must be 0 or 1");
      row.recomputes = recomputes == "1";
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return bad_input(path + ": no row was measured");
  return rows;
}

Result<std::vector<const Coefficient*>> read_coefficients(const std::string& names) {
  std::vector<const Coefficient*> chosen;
  std::string known;
  for (const Coefficient& each : all_coefficients()) known += (known.empty() ? "" : ", ") + std::string(each.name);
  for (const std::string& name : split(names)) {
    const auto found = std::ranges::find_if(all_coefficients(), [&](const Coefficient& each) { return each.name == name; });
    if (found == all_coefficients().end()) return bad_input("--coefficients: '" + name + "' is none; known are " + known);
    if (std::ranges::find(chosen, &*found) != chosen.end()) return bad_input("--coefficients: '" + name + "' is named twice");
    chosen.push_back(&*found);
  }
  return chosen;
}

struct Opened {
  PluginHost host;
  std::vector<MeasuredStep> steps;
};

Result<Opened> open_steps(const CalibrateOptions& options, const std::vector<MeasuredRow>& rows) {
  ProgramOptions first;
  first.plan = rows[0].plan;
  first.config = options.config;
  first.set = options.set;
  first.allow_changed_model = true;  // the plan holds all that is timed
  Result<OpenPlan> opened = open_plan(first);
  if (!opened) return opened.error();
  std::vector<MeasuredStep> steps;
  for (const MeasuredRow& row : rows) {
    Result<Plan> plan = read_plan(row.plan, *opened->tools.ops);
    if (!plan) return add_context(row.plan, plan.error());
    Result<Program> program = make_program(*plan, opened->tools);
    if (!program) return add_context(row.plan, program.error());
    CostProfile profile = opened->tools.profile;
    profile.device = plan->cluster.device;
    profile.parameter_bytes = parameter_bytes(plan->graph(), plan->training);
    std::vector<Work> works = works_of(*program, *opened->tools.ops);
    steps.push_back({row.plan, std::move(*program), std::move(works), std::move(profile), plan->cluster, plan->training, row.recomputes, row.seconds});
  }
  return Opened{std::move(opened->host), std::move(steps)};
}

std::string written(const Coefficient& coefficient, double value) {
  if (*coefficient.unit != '\0') return quantity_text(value, coefficient.unit);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string error_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

Status calibrated(const CalibrateOptions& options) {
  const Result<std::vector<MeasuredRow>> rows = read_rows(options.rows);
  if (!rows) return rows.error();
  const Result<std::vector<const Coefficient*>> coefficients = read_coefficients(options.coefficients);
  if (!coefficients) return coefficients.error();
  Result<Opened> opened = open_steps(options, *rows);
  if (!opened) return opened.error();
  const DeviceSpec before = opened->steps[0].cluster.device;
  for (const MeasuredStep& step : opened->steps) {
    if (step.cluster.device.name != before.name) {
      return bad_input(options.rows + ": steps on '" + before.name + "' and on '" + step.cluster.device.name + "'; calibrate one device at a time");
    }
  }
  const Result<Calibration> found = calibrate(opened->steps, before, *coefficients);
  if (!found) return found.error();
  const std::string comment = std::to_string(rows->size()) + " measured steps, mean error " + error_text(found->error_after) + ". Fitted to them: " + options.coefficients +
                              ".\nEverything else is as it was in the file of the device that they were planned for.";
  if (!options.output.empty()) {
    if (Status status = write_file_atomically(options.output, device_toml(found->device, comment)); !status) return status;
  }
  const std::string& kernel = opened->steps[0].training.attention;
  DeviceSpec old = before, fitted = found->device;
  if (options.format == "json") {
    Json json, moved = Json::Object{};
    for (const Coefficient* each : *coefficients) moved.add(each->name, Json().add("before", *each->of(old, kernel)).add("after", *each->of(fitted, kernel)));
    json.add("rows", static_cast<std::int64_t>(rows->size())).add("error_before", found->error_before).add("error_after", found->error_after);
    json.add("coefficients", std::move(moved));
    print(write_json(json));
    return Done{};
  }
  std::vector<std::vector<std::string>> table = {{"coefficient", "before", "after", "plausible"}};
  for (const Coefficient* each : *coefficients) {
    table.push_back({each->name, written(*each, *each->of(old, kernel)), written(*each, *each->of(fitted, kernel)),
                     written(*each, each->least) + " to " + written(*each, each->most)});
  }
  print(std::to_string(rows->size()) + " steps on " + before.name + ": mean error " + error_text(found->error_before) + " before, " + error_text(found->error_after) + " after\n" +
        table_text(table, 1));
  return Done{};
}

}  // namespace

int run_calibrate(const CalibrateOptions& options) {
  const Status status = calibrated(options);
  return status ? 0 : report_error(status.error());
}

}  // namespace meshwright::host
