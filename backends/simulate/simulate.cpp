// Predicts the time and the memory of a step, and draws it; nothing is computed.
#include <algorithm>

#include "meshwright/backend.h"
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
    const std::vector<std::int64_t> held = memory_curve(input.program);
    const auto peak = std::ranges::max_element(held);
    if (peak != held.end()) {
      report.peak_bytes = *peak;
      report.peak_instruction = peak - held.begin();
    }
    return report;
  }

  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    const Result<Timeline> timeline = make_timeline(input.program, input.ops, input.profile);
    if (!timeline) return timeline.error();
    return std::vector<EmittedFile>{{"trace.json", trace_json(input.program, *timeline)},
                                    {"timeline.txt", timeline_text(input.program, *timeline)}};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "simulate", "0.1.0", "Apache-2.0", "Time line and memory curve of a step", nullptr,
                  nullptr, 0, (create_plugin<Backend, Simulate>), destroy_plugin<Backend>)

}  // namespace meshwright
