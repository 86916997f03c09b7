// Trace events as chrome://tracing and Perfetto read them ("Trace Event Format"): complete events, metadata and
// counters, in microseconds.
#include <algorithm>
#include <cstdio>

#include "foreign_text.h"
#include "timeline_text.h"

namespace meshwright {

namespace {

std::string microseconds(double seconds) {
  char text[48];
  std::snprintf(text, sizeof text, "%.6f", seconds * 1e6);
  return text;
}

std::string metadata(const char* what, int thread, const std::string& text) {
  return R"({"ph": "M", "pid": 0, "tid": )" + std::to_string(thread) + R"(, "name": ")" + what +
         R"(", "args": {"name": )" + json_string(text) + "}}";
}

std::string complete(const Program& program, const Span& span) {
  const Instruction& instruction = program.instructions[span.at.instruction];
  std::string arguments = "\"instruction\": " + std::to_string(span.at.instruction) + ", \"name\": " + json_string(instruction.name);
  if (program.order.microbatches > 1) arguments += ", \"microbatch\": " + std::to_string(span.at.microbatch);
  if (!instruction.module_path.empty()) arguments += ", \"module\": " + json_string(instruction.module_path);
  if (const Move* move = instruction.move()) {
    const ShardedType& from = program.type(instruction.operands[0].value);
    arguments += ", \"from\": " + json_string(to_string(from.layout, from.atoms)) +
                 ", \"to\": " + json_string(to_string(move->result, from.atoms)) +
                 ", \"sent_bytes\": " + std::to_string(sent_bytes(program, instruction));
  }
  for (const ProgramValueId result : instruction.results) {
    arguments +=
        ", " + json_string("makes " + program.values[result].name) + ": " + json_string(to_string(program.local(result)));
  }
  return R"({"ph": "X", "pid": 0, "tid": )" + std::to_string(static_cast<int>(span.stream)) +
         ", \"ts\": " + microseconds(span.start_seconds()) + ", \"dur\": " + microseconds(span.seconds()) +
         ", \"name\": " + json_string(title(instruction)) + R"(, "cat": ")" + name(instruction.phase) + R"(", "args": {)" +
         arguments + "}}";
}

}  // namespace

std::string trace_json(const Program& program, const Timeline& timeline) {
  std::vector<std::string> events = {
      metadata("process_name", 0, "each rank of mesh " + to_string(program.mesh)),
      metadata("thread_name", static_cast<int>(Stream::compute), "computing"),
      metadata("thread_name", static_cast<int>(Stream::communication), "parameters' moves"),
  };
  const std::vector<std::int64_t> held = memory_curve(program);
  double now = 0;  // the curve goes by the order of the program, so an early gather counts from its turn
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (span.seconds() > 0) events.push_back(complete(program, span));
    if (i > 0 && held[i] == held[i - 1]) continue;
    now = std::max(now, span.start_seconds());
    events.push_back(R"({"ph": "C", "pid": 0, "name": "memory", "ts": )" + microseconds(now) +
                     R"(, "args": {"bytes": )" + std::to_string(held[i]) + "}}");
  }
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace meshwright
