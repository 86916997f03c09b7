#include "schedule_ops.h"

namespace meshwright {

namespace {

struct StageRuns {
  int forwards = 0;
  bool lets_input_go = false;  // before its backward does
};

std::vector<StageRuns> runs_of(std::size_t stages, std::span<const ChainOperation> schedule) {
  std::vector<StageRuns> runs(stages);
  for (const ChainOperation& operation : schedule) {
    StageRuns& stage = runs[operation.stage];
    switch (operation.kind) {
      case ChainOperationKind::forward_keep_nothing:
        stage.lets_input_go = true;
        [[fallthrough]];
      case ChainOperationKind::forward_keep_all:
      case ChainOperationKind::forward_keep_input: ++stage.forwards; break;
      case ChainOperationKind::drop_input: stage.lets_input_go = true; break;
      case ChainOperationKind::drop_saved:
      case ChainOperationKind::backward: break;
    }
  }
  return runs;
}

}  // namespace

ScheduledOps ops_of_schedule(const ModelChain& model, const Graph& graph, std::span<const ChainOperation> schedule, const Chain& chain, std::int64_t spare_bytes) {
  const std::vector<StageRuns> runs = runs_of(model.stages.size(), schedule);
  ScheduledOps made;
  made.run_again.assign(graph.nodes.size(), false);
  for (std::size_t s = 0; s < runs.size(); ++s) {
    if (runs[s].forwards < 2) continue;
    ++made.stages;
    if (runs[s].forwards > 2) ++made.more_than_twice;
    for (const NodeId id : model.stages[s].nodes) made.run_again[id] = true;
    if (s + 1 == runs.size()) continue;
    if (runs[s + 1].lets_input_go) {
      const std::int64_t bytes = chain.stages[s + 1].input_bytes;
      if (bytes == 0 || bytes > spare_bytes) continue;  // what takes nothing is kept anyway
      spare_bytes -= bytes;
    }
    for (const ValueId value : model.stages[s].results) {
      const NodeId maker = graph.values[model.owner[value]].producer;
      if (maker != kNoId) made.run_again[maker] = false;
    }
  }
  return made;
}

}  // namespace meshwright
