// When each instruction runs on a rank: all ranks of a mesh do the same at the same time, on two streams.
//
// Computing, and the moves that computing waits for, run one after the other. The moves of parameters, and the sums of
// what they reduced, run beside them, one after the other too: each is issued when all computing before it in the program
// is done, so that a gather that stands one op ahead hides behind that op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/backend.h"

namespace meshwright {

enum class Stream : std::uint8_t { compute, parameters };

struct Span {
  Stream stream = Stream::compute;
  double start_seconds = 0;
  double seconds = 0;
  [[nodiscard]] double end() const { return start_seconds + seconds; }
};

struct Timeline {
  std::vector<Span> spans;  // by instruction
  double step_seconds = 0;
};

Result<Timeline> make_timeline(const BackendInput& input);

// What an instruction is, in a few words: "aten.linear", "all_gather 1".
std::string title(const Instruction& instruction);

// The longest instructions, and sums by phase and stream.
std::string timeline_text(const Program& program, const Timeline& timeline);

// A Chrome trace, which Perfetto opens: a track for each stream, and one for the bytes that a rank holds.
std::string trace_json(const Program& program, const Timeline& timeline);

}  // namespace meshwright
