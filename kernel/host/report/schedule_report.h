// A pipeline schedule as a table with a time grid, and as JSON. Its times are units, not ticks: unit_ticks of
// schedule.h.
#pragma once

#include <string>

#include "files/json.h"
#include "meshwright/schedule.h"

namespace meshwright::host {

struct TimedSchedule {
  std::string id;  // of the plugin that made it
  PipelineSchedule schedule;
  PipelineTimeline timeline;
  bool in_seconds = false;  // Its times are ticks, as in problems made from a model, and not units.
};

// Of each stage its positions, what it holds and how long it waits; below, a row for each stage and a column for each
// unit of time, in blocks that fit a terminal. The grid of a very long schedule is left out, and that is said.
std::string schedule_text(const TimedSchedule& timed);

// {"schedule", "stages", "chunks", "microbatches", "makespan", "bubble_fraction", "in_flight": [by stage],
// "positions": [[by chunk] by stage], "order": [["0F0", ...] by stage], "starts": [[units of time] by stage]}.
Json schedule_json(const TimedSchedule& timed);

// "4 stages, 2 chunks each, 8 microbatches"
std::string shape_text(const ScheduleShape& shape);

// "makespan 33, bubble 27.3 %"; of one in seconds "makespan 41.231 ms, bubble 27.3 %".
std::string makespan_text(const TimedSchedule& timed);
// A time of it: "33", "1.204 ms".
std::string time_text(const TimedSchedule& timed, Ticks time);

}  // namespace meshwright::host
