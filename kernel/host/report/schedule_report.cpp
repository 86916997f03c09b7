#include "report/schedule_report.h"

#include <algorithm>
#include <cstdio>

#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

constexpr std::size_t kGridWidth = 100;  // characters, about
constexpr std::size_t kMostGridCells = 200'000;

std::string count_text(std::uint32_t count, const std::string& one, const std::string& several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

std::string positions_text(const PipelineSchedule& schedule, std::size_t stage) {
  std::string text;
  for (std::uint32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) {
    text += (chunk > 0 ? " " : "") + std::to_string(schedule.position(stage, chunk));
  }
  return text;
}

std::string stage_table(const TimedSchedule& timed) {
  std::vector<std::vector<std::string>> rows = {{"stage", "positions", "in flight", "busy", "idle"}};
  for (std::size_t stage = 0; stage < timed.schedule.shape.stages; ++stage) {
    const Ticks busy = timed.timeline.busy[stage];
    rows.push_back({std::to_string(stage), positions_text(timed.schedule, stage),
                    std::to_string(timed.timeline.in_flight[stage]), std::to_string(busy),
                    std::to_string(timed.timeline.makespan - busy)});
  }
  return table_text(rows, 2);
}

// What each stage does in each unit of time: an event's text where it begins, "-" where it goes on, "." where it waits.
std::vector<std::vector<std::string>> grid_of(const TimedSchedule& timed) {
  std::vector<std::vector<std::string>> grid;
  for (std::size_t stage = 0; stage < timed.schedule.shape.stages; ++stage) {
    std::vector<std::string>& row = grid.emplace_back(static_cast<std::size_t>(timed.timeline.makespan), ".");
    for (std::size_t i = 0; i < timed.schedule.order[stage].size(); ++i) {
      const PipelineTimeline::Span& span = timed.timeline.spans[stage][i];
      for (Ticks unit = span.start; unit < span.end; ++unit) row[static_cast<std::size_t>(unit)] = "-";
      row[static_cast<std::size_t>(span.start)] = to_string(timed.schedule, stage, timed.schedule.order[stage][i]);
    }
  }
  return grid;
}

std::string grid_text(const TimedSchedule& timed) {
  const std::vector<std::vector<std::string>> grid = grid_of(timed);
  const std::size_t length = grid.front().size();
  std::size_t width = std::to_string(length).size();
  for (const auto& row : grid) {
    for (const std::string& cell : row) width = std::max(width, cell.size());
  }
  const std::size_t columns = std::max<std::size_t>(1, kGridWidth / (width + 2));
  std::string text;
  for (std::size_t begin = 0; begin < length; begin += columns) {
    const std::size_t end = std::min(begin + columns, length);
    std::vector<std::vector<std::string>> rows(1, {"time"});
    for (std::size_t unit = begin; unit < end; ++unit) rows[0].push_back(std::to_string(unit));
    for (std::size_t stage = 0; stage < grid.size(); ++stage) {
      std::vector<std::string>& row = rows.emplace_back(1, "stage " + std::to_string(stage));
      for (std::size_t unit = begin; unit < end; ++unit) {
        row.push_back(std::string(width - std::min(width, grid[stage][unit].size()), ' ') + grid[stage][unit]);
      }
    }
    text += table_text(rows, 1) + "\n";
  }
  return text +
         "  F forward, B backward, I its input gradient, W its weight gradient; before it the position, after it the "
         "microbatch\n";
}

}  // namespace

std::string shape_text(const ScheduleShape& shape) {
  return count_text(shape.stages, "stage", "stages") + ", " + count_text(shape.chunks, "chunk", "chunks") + " each, " +
         count_text(shape.microbatches, "microbatch", "microbatches");
}

std::string time_text(const TimedSchedule& timed, Ticks time) { return timed.in_seconds ? milliseconds(to_seconds(time)) : std::to_string(time); }

std::string makespan_text(const TimedSchedule& timed) {
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", 100 * timed.timeline.bubble_fraction());
  return "makespan " + time_text(timed, timed.timeline.makespan) + ", bubble " + percent + " %";
}

std::string schedule_text(const TimedSchedule& timed) {
  std::string text = timed.id + ": " + shape_text(timed.schedule.shape) + "; " + makespan_text(timed) + "\n\n";
  text += stage_table(timed) + "\n";
  const std::size_t cells =
      std::size_t{timed.schedule.shape.stages} * static_cast<std::size_t>(timed.timeline.makespan);
  if (cells <= kMostGridCells) return text + grid_text(timed);
  return text + "  The time grid has " + std::to_string(cells) +
         " cells and is left out; --format json has every event.\n";
}

Json schedule_json(const TimedSchedule& timed) {
  const ScheduleShape& shape = timed.schedule.shape;
  Json in_flight = Json::Array{}, positions = Json::Array{}, orders = Json::Array{}, all_starts = Json::Array{};
  for (std::size_t stage = 0; stage < shape.stages; ++stage) {
    in_flight.push(timed.timeline.in_flight[stage]);
    Json of_stage = Json::Array{}, order = Json::Array{}, starts = Json::Array{};
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) of_stage.push(timed.schedule.position(stage, chunk));
    for (const PipelineEvent& event : timed.schedule.order[stage]) order.push(to_string(timed.schedule, stage, event));
    for (const PipelineTimeline::Span& span : timed.timeline.spans[stage]) starts.push(span.start);
    positions.push(std::move(of_stage));
    orders.push(std::move(order));
    all_starts.push(std::move(starts));
  }
  Json json;
  json.add("schedule", timed.id).add("stages", shape.stages).add("chunks", shape.chunks);
  json.add("microbatches", shape.microbatches).add("makespan", timed.timeline.makespan);
  json.add("bubble_fraction", timed.timeline.bubble_fraction()).add("in_flight", std::move(in_flight));
  json.add("positions", std::move(positions)).add("order", std::move(orders)).add("starts", std::move(all_starts));
  return json;
}

}  // namespace meshwright::host
