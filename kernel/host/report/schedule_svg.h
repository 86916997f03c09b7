// A pipeline schedule as a picture: a row for each stage, time to the right.
#pragma once

#include <string>

#include "report/schedule_report.h"

namespace meshwright::host {

// Colours are kinds of events, paler for later chunks; numbers are microbatches.
std::string schedule_svg(const TimedSchedule& timed);

}  // namespace meshwright::host
