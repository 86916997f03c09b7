#include "schedule_ops.h"

#include <algorithm>

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

// Whether an op makes something else that a plan could let go than storages of a stage's results.
bool makes_more(const ModelChain& model, const Node& maker, const ModelStage& stage, const Recomputation& again) {
  return std::ranges::any_of(maker.results, [&](ValueId made) {
    return again.makes(made) && std::ranges::none_of(stage.results, [&](ValueId value) { return model.owner[value] == model.owner[made]; });
  });
}

}  // namespace

ValueMakers value_makers(const ModelChain& model, const Graph& graph, const Recomputation& again) {
  ValueMakers made(model.stages.size());
  for (std::size_t s = 0; s < model.stages.size(); ++s) {
    for (const ValueId value : model.stages[s].results) {
      const NodeId maker = graph.values[model.owner[value]].producer;
      if (maker != kNoId && !makes_more(model, graph.nodes[maker], model.stages[s], again)) made[s].push_back(maker);
    }
  }
  return made;
}

ScheduledOps ops_of_schedule(const ModelChain& model, const ValueMakers& makers, std::span<const ChainOperation> schedule, const Chain& chain, std::int64_t spare_bytes) {
  const std::vector<StageRuns> runs = runs_of(model.stages.size(), schedule);
  ScheduledOps made;
  made.run_again.assign(model.stage_of.size(), false);
  for (std::size_t s = 0; s < runs.size(); ++s) {
    if (runs[s].forwards < 2) continue;
    ++made.stages;
    if (runs[s].forwards > 2) ++made.more_than_twice;
    for (const NodeId id : model.stages[s].nodes) made.run_again[id] = true;
    if (makers[s].empty()) continue;
    if (runs[s + 1].lets_input_go) {
      const std::int64_t bytes = chain.stages[s + 1].input_bytes;
      if (bytes == 0 || bytes > spare_bytes) continue;  // what takes nothing is kept anyway
      spare_bytes -= bytes;
    }
    for (const NodeId maker : makers[s]) made.run_again[maker] = false;
  }
  return made;
}

}  // namespace meshwright
