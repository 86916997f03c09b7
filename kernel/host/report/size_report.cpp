#include "report/size_report.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

// What both kinds of plans say of their model.
struct PlannedModel {
  const ModelAnalysis& model;
  const TrainingSettings& training;
  const DeviceSpec& device;
};

PlannedModel model_of(const PlanOutcome& outcome) {
  if (outcome.plan) return {outcome.plan->model, outcome.plan->training, outcome.plan->cluster.device};
  return {outcome.pipeline->model, outcome.pipeline->training, outcome.pipeline->cluster.device};
}

bool is_whole_number(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }

// The first input of whole numbers, batch x sequence.
void find_tokens(SizeTable& table, const PlannedModel& planned) {
  const Graph& graph = *planned.model.graph;
  table.model = graph.name;
  for (const Source& source : graph.sources) {
    const TensorType& type = graph.type(source.value);
    if (source.kind != SourceKind::user_input || !is_whole_number(type.dtype) || type.rank() != 2 || type.shape[0] * planned.training.microbatches != table.batch) continue;
    table.token_input = value_name(graph, source.value);
    table.sequence = type.shape[1];
    return;
  }
}

std::optional<double> mfu_of(SizeTable& table, const PlannedModel& planned, double device_seconds) {
  const Result<ModelFlops> flops = model_flops(planned.model, planned.training);
  const Result<double> peak = flops ? seconds_at_peak(*flops, planned.device, planned.training) : Result<double>(flops.error());
  if (flops && !table.flops) table.flops = *flops;
  if (peak) return *peak / device_seconds;
  table.no_mfu = peak.error().message;
  return std::nullopt;
}

// --- rows ---

struct SizeRow {
  std::int64_t devices = 0;
  const PartTrial* best = nullptr;  // null: no plan
  const PlannedPart* part = nullptr;

  [[nodiscard]] double samples_per_device(const SizeTable& table) const { return static_cast<double>(table.batch) / (best->step_seconds * static_cast<double>(best->devices)); }
};

SizeRow row_of(const SizeTable& table, std::int64_t devices) {
  const std::optional<std::size_t> best = best_part(table.trials, devices);
  return best ? SizeRow{devices, &table.trials[*best], &table.parts[*best]} : SizeRow{devices, nullptr, nullptr};
}

std::vector<SizeRow> rows_of(const SizeTable& table) {
  std::vector<SizeRow> rows;
  for (const std::int64_t devices : table.asked) rows.push_back(row_of(table, devices));
  return rows;
}

const char* counted(const SizeTable& table) { return table.token_input.empty() ? "samples" : "tokens"; }

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, rate >= 100 ? "%.0f" : "%.3g", rate);
  return text;
}

std::string flops_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", flops);
  return text;
}

std::string share_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::string devices_text(std::int64_t devices) { return std::to_string(devices) + (devices == 1 ? " device" : " devices"); }

// The first line of a refusal, with the next one where that says what the first one announces.
std::string short_reason(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return text;
  if (end == 0 || text[end - 1] != ':') return text.substr(0, end);
  const std::size_t next = text.find_first_not_of(" \n", end);
  if (next == std::string::npos) return text.substr(0, end - 1);
  return text.substr(0, end) + " " + text.substr(next, text.find('\n', next) - next);
}

std::string stages_cell(const PlanFigures& figures) {
  const std::string groups = std::to_string(figures.groups);
  return figures.stages == figures.groups ? groups : groups + " of " + std::to_string(figures.stages / figures.groups) + " parts";
}

std::string table_of_sizes(const SizeTable& table) {
  std::vector<std::vector<std::string>> cells = {{"devices", "step", std::string(counted(table)) + "/s a device", "MFU", "peak memory", "stages", "mesh", "microbatches", "schedule", "idle"}};
  for (const SizeRow& row : rows_of(table)) {
    if (row.best == nullptr) {
      cells.push_back({std::to_string(row.devices), "no plan"});
      continue;
    }
    const PlanFigures& figures = row.part->figures;
    cells.push_back({std::to_string(row.devices), milliseconds(figures.step_seconds), rate_text(row.samples_per_device(table) * static_cast<double>(table.sequence)),
                     row.part->mfu ? percent(*row.part->mfu) : "unknown", size_text(figures.peak_bytes), stages_cell(figures), figures.meshes, std::to_string(figures.microbatches),
                     figures.schedule.empty() ? "-" : figures.schedule, std::to_string(row.devices - row.best->devices)});
  }
  return table_text(cells, 1);
}

// --- what follows from the rows ---

std::string how_mfu_is_counted(const SizeTable& table) {
  std::string text;
  if (table.flops) {
    text += flops_text(table.flops->sum()) + " FLOPs of matrix products in a step, forward and backward (";
    bool first = true;
    for (const auto& [dtype, flops] : table.flops->by_dtype) text += (std::exchange(first, false) ? "" : ", ") + std::string(name(dtype));
    text += "); what runs again does not count, and of attention that the model calls causal half";
    if (table.flops->unruled > 0) text += ", nor do " + std::to_string(table.flops->unruled) + " ops without a rule";
    text += ".";
  }
  if (table.no_mfu.empty()) return "MFU is of the peak that '" + table.cluster.device.name + "' states: " + text + "\n";
  return "MFU is unknown: " + table.no_mfu + ".\n";
}

std::string what_pays(const SizeTable& table, const SizesThatPay& pays) {
  const SizeRow shortest = row_of(table, pays.shortest), cheapest = row_of(table, pays.most_per_device);
  std::string text = "Shortest step    " + milliseconds(shortest.best->step_seconds) + " on " + devices_text(pays.shortest);
  if (const std::int64_t most = table.asked.back(); most > pays.shortest) text += "; of " + std::to_string(most) + " the others idle: no plan was found that uses more and is faster";
  text += "\nMost per device  " + rate_text(cheapest.samples_per_device(table) * static_cast<double>(table.sequence)) + " " + counted(table) + " a second a device, on " +
          devices_text(pays.most_per_device) + ": there " + counted(table) + " are cheapest\n";
  text += "Adding devices   ";
  if (pays.next) {
    text += "stops paying at " + std::to_string(pays.pays_up_to) + ": of those that are added from there up to " + std::to_string(pays.next->devices) + ", where they do most, each does " +
            share_text(pays.next->share) + " of what one does on " + std::to_string(pays.most_per_device);
  } else {
    text += "pays up to " + std::to_string(pays.pays_up_to) + ", the most that any of these plans uses";
  }
  return text + "\n                 It pays as long as each one that is added does at least " + share_text(kLeastPayingShare) + " of what a device does where it does most.\n";
}

std::string other_trials(const SizeTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.trials.size(); ++i) {
    const PartTrial& trial = table.trials[i];
    const bool is_asked = std::ranges::find(table.asked, trial.devices) != table.asked.end();
    if (trial.step_seconds <= 0) text += "No plan uses all of " + devices_text(trial.devices) + ": " + short_reason(table.parts[i].refusal) + "\n";
    else if (!is_asked) text += "Planned for the sizes above it, too: " + devices_text(trial.devices) + ", " + milliseconds(trial.step_seconds) + ".\n";
    else if (best_part(table.trials, trial.devices) != i) text += "All of " + devices_text(trial.devices) + " would take " + milliseconds(trial.step_seconds) + ".\n";
  }
  return text;
}

// --- for programs ---

void add_row(Json& json, const SizeTable& table, const SizeRow& row) {
  const PlanFigures& figures = row.part->figures;
  const double samples = row.samples_per_device(table);
  json.add("used", row.best->devices).add("idle", row.devices - row.best->devices).add("step_seconds", figures.step_seconds).add("samples_per_second_per_device", samples);
  json.add("tokens_per_second_per_device", table.token_input.empty() ? Json(nullptr) : Json(samples * static_cast<double>(table.sequence)));
  json.add("mfu", row.part->mfu ? Json(*row.part->mfu) : Json(nullptr)).add("peak_bytes", figures.peak_bytes);
  json.add("stages", figures.groups).add("parts", static_cast<std::int64_t>(figures.stages)).add("mesh", figures.meshes).add("microbatches", figures.microbatches);
  json.add("schedule", figures.schedule.empty() ? Json(nullptr) : Json(figures.schedule));
}

Json pays_json(const SizesThatPay& pays) {
  Json json;
  json.add("shortest_step_devices", pays.shortest).add("most_per_device_devices", pays.most_per_device).add("pays_up_to_devices", pays.pays_up_to).add("least_paying_share", kLeastPayingShare);
  if (pays.next) json.add("next", Json().add("devices", pays.next->devices).add("share", pays.next->share));
  return json;
}

}  // namespace

void add_part(SizeTable& table, std::int64_t devices, const Result<PlanOutcome>& outcome) {
  PartTrial& trial = table.trials.emplace_back();
  trial.devices = devices;
  PlannedPart& part = table.parts.emplace_back();
  if (!outcome || (!outcome->plan && !outcome->pipeline)) {
    part.refusal = outcome ? outcome->refusal : outcome.error().message;
    return;
  }
  part.figures = figures_of(*outcome);
  trial.step_seconds = part.figures.step_seconds;
  const PlannedModel planned = model_of(*outcome);
  if (table.batch == 0) {
    table.batch = outcome->batch;
    find_tokens(table, planned);
  }
  part.mfu = mfu_of(table, planned, trial.step_seconds * static_cast<double>(devices));
}

std::string sizes_text(const SizeTable& table) {
  const std::optional<SizesThatPay> pays = sizes_that_pay(table.trials, table.asked);
  std::string text;
  if (pays) {
    text = table.model + " on parts of " + table.cluster.name + " (" + std::to_string(table.cluster.devices()) + " x " + table.cluster.device.name + "): the same step of " + std::to_string(table.batch) +
           " samples at each size (strong scaling)";
    text += table.token_input.empty() ? ", which have no input of tokens\n\n" : ", each of " + std::to_string(table.sequence) + " tokens (of input '" + table.token_input + "')\n\n";
  }
  text += table_of_sizes(table);
  if (pays) text += "Rates and MFU are of the devices that a plan uses, which are the first ones of the cluster; the others idle.\n" + how_mfu_is_counted(table);
  text += other_trials(table);
  return pays ? text + "\n" + what_pays(table, *pays) : text;
}

Json sizes_json(const SizeTable& table) {
  Json::Array sizes, parts;
  for (const SizeRow& row : rows_of(table)) {
    Json json;
    json.add("devices", row.devices);
    if (row.best != nullptr) add_row(json, table, row);
    else json.add("status", "no plan");
    sizes.push_back(std::move(json));
  }
  for (std::size_t i = 0; i < table.trials.size(); ++i) {
    Json json;
    json.add("devices", table.trials[i].devices);
    if (table.trials[i].step_seconds > 0) json.add("step_seconds", table.trials[i].step_seconds);
    else json.add("reason", table.parts[i].refusal);
    parts.push_back(std::move(json));
  }
  Json all;
  all.add("cluster", table.cluster.name).add("cluster_devices", table.cluster.devices()).add("device", table.cluster.device.name);
  if (table.batch > 0) {
    all.add("batch", table.batch).add("tokens", table.token_input.empty() ? Json(nullptr) : Json().add("input", table.token_input).add("sequence", table.sequence));
    all.add("model_flops", table.flops ? Json(table.flops->sum()) : Json(nullptr));
    if (!table.no_mfu.empty()) all.add("mfu_unknown", table.no_mfu);
  }
  all.add("sizes", std::move(sizes)).add("parts", std::move(parts));
  if (const std::optional<SizesThatPay> pays = sizes_that_pay(table.trials, table.asked)) all.add("pays", pays_json(*pays));
  return all;
}

}  // namespace meshwright::host
