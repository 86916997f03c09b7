// A time line as text and as a trace.
#pragma once

#include <string>

#include "meshwright/timeline.h"

namespace meshwright {

// What an instruction is, in a few words: "aten.linear", "all_gather 1".
std::string title(const Instruction& instruction);

// The longest instructions, and sums by phase and stream.
std::string timeline_text(const Program& program, const Timeline& timeline);

// A Chrome trace, which Perfetto opens: a track for each stream, and one for the bytes that a rank holds.
std::string trace_json(const Program& program, const Timeline& timeline);

}  // namespace meshwright
