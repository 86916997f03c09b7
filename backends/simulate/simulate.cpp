// Predicts the time and the memory of a step, and draws it; nothing is computed.
#include "meshwright/backend.h"
#include "meshwright/memory_profile.h"
#include "meshwright/plugin.h"
#include "timeline_text.h"

namespace meshwright {
namespace {

class Simulate final : public Backend {
  Result<Report> do_run(const BackendInput& input) const override {
    const Result<Timeline> timeline = make_timeline(input.program, input.ops, input.profile);
    if (!timeline) return timeline.error();
    Report report;
    report.ranks = input.program.mesh.devices();
    report.step_seconds = timeline->step_seconds;
    report.bytes_sent = sent_bytes(input.program);
    const MemoryProfile memory = memory_profile(input.program);
    report.peak_bytes = memory.peak_bytes;
    if (!memory.curve.empty()) report.peak_instruction = static_cast<std::int64_t>(memory.curve[memory.peak].at.instruction);
    return report;
  }

  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    const bool traces = input.only_file != "timeline.txt";
    const Result<Timeline> timeline = make_timeline(input.program, input.ops, input.profile, traces ? Detail::spans : Detail::sums);
    if (!timeline) return timeline.error();
    std::vector<EmittedFile> files = {{"timeline.txt", timeline_text(input.program, *timeline)}};
    if (traces) files.insert(files.begin(), {"trace.json", trace_json(input.program, *timeline)});
    return files;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "simulate", "0.1.0", "Apache-2.0", "Time line and memory curve of a step", nullptr,
                  nullptr, 0, (create_plugin<Backend, Simulate>), destroy_plugin<Backend>)

}  // namespace meshwright
