// Recomputes nothing: what a training step does by itself.
#include "meshwright/checkpoint.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

class None final : public CheckpointSolver {
 private:
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain& chain,
                                                 std::span<const std::int64_t> budgets) const override {
    const Result<CheckpointAnswer> everything = answer_by(chain, keep_everything(chain), "everything kept");
    if (!everything) return everything.error();
    std::vector<CheckpointAnswer> answers;
    for (const std::int64_t budget : budgets) {
      const bool fits = everything->peak_bytes <= budget;
      answers.push_back(fits ? *everything : no_answer_below(everything->peak_bytes, everything->method));
    }
    return answers;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("checkpoint", "none", "0.1.0", "Apache-2.0", "Keeps everything and recomputes nothing", nullptr,
                  nullptr, 0, (create_plugin<CheckpointSolver, None>), destroy_plugin<CheckpointSolver>)

}  // namespace meshwright
