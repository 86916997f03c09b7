#include "followed_chain.h"

#include <algorithm>
#include <set>

#include "meshwright/plan_chain.h"
#include "meshwright/recompute.h"

namespace meshwright {

namespace {

constexpr TickSum kPreference = 1000;  // by such a part of it a stage takes less than one that is alike, the whole chain behind it
constexpr std::uint32_t kOfNoBlock = static_cast<std::uint32_t>(-1);

// Of stages that are alike the first ones should run again: what they save is held longest, and simulated steps are shorter so (by 1 % of Llama's), of which a chain knows
// nothing.
Ticks earlier_first(TickSum ticks, std::size_t stage, std::size_t stages) {
  return static_cast<Ticks>(ticks - ticks * static_cast<TickSum>(stages - stage) / (kPreference * static_cast<TickSum>(stages)));
}

class BlockCutter {
 public:
  BlockCutter(const ModelAnalysis& model, const Recomputation& again, const ModelChain& chain)
      : model_(model), chain_(chain), block_(model.graph->nodes.size(), kOfNoBlock), last_use_(model.graph->values.size(), 0) {
    const std::vector<RecomputableBlock> blocks = blocks_of(model);
    for (std::uint32_t b = 0; b < blocks.size(); ++b) {
      for (const NodeId id : blocks[b].nodes) {
        if (again.runs(id)) block_[id] = b;
      }
    }
    for (NodeId id = 0; id < model.graph->nodes.size(); ++id) {
      for (const Operand& operand : model.graph->nodes[id].operands) last_use_[operand.value] = id;
    }
  }

  ModelChain run() const {
    ModelChain cut = chain_;
    cut.stages.clear();
    for (const ModelStage& stage : chain_.stages) {
      for (ModelStage& part : parts_of(stage)) {
        for (const NodeId id : part.nodes) cut.stage_of[id] = static_cast<std::uint32_t>(cut.stages.size());
        cut.stages.push_back(std::move(part));
      }
    }
    return cut;
  }

 private:
  // The stage itself, if its blocks are not one behind the other.
  [[nodiscard]] std::vector<ModelStage> parts_of(const ModelStage& stage) const {
    std::vector<ModelStage> parts(1);
    std::set<std::uint32_t> seen;
    std::uint32_t now = kOfNoBlock;
    for (const NodeId id : stage.nodes) {
      if (block_[id] != kOfNoBlock && block_[id] != now) {
        if (!seen.insert(block_[id]).second) return {stage};
        if (now != kOfNoBlock) parts.emplace_back();
        now = block_[id];
      }
      parts.back().nodes.push_back(id);
    }
    for (ModelStage& part : parts) part.results = handed_on(part);
    parts.back().results = stage.results;
    return parts;
  }

  [[nodiscard]] std::vector<ValueId> handed_on(const ModelStage& part) const {
    std::vector<ValueId> values;
    for (const NodeId id : part.nodes) {
      if (chain_.is_common[id]) continue;
      for (const ValueId result : model_.graph->nodes[id].results) {
        if (last_use_[result] > part.nodes.back()) values.push_back(result);
      }
    }
    return values;
  }

  const ModelAnalysis& model_;
  const ModelChain& chain_;
  std::vector<std::uint32_t> block_;  // by node: that it runs again with
  std::vector<NodeId> last_use_;      // by value
};

}  // namespace

ModelChain cut_at_blocks(const ModelAnalysis& model, const Recomputation& again, const ModelChain& chain) { return BlockCutter(model, again, chain).run(); }

Result<FollowedChains> FollowedChains::make(const RecomputeWish& wish) {
  const ModelAnalysis& model = wish.input.model;
  Result<Problem> all = wish.problem_with(wish.recompute_pins.applied_to(recomputable_blocks(model)));
  if (!all) return all.error();
  ModelChain chain = cut_at_blocks(model, all->recomputation, linearize(model, wish.input.ops));
  ValueMakers makers = value_makers(chain, wish.input.graph(), all->recomputation);
  return FollowedChains(wish, std::move(chain), std::move(makers), *std::move(all));
}

void FollowedChains::leave_out_makers(std::vector<bool>& ops) const {
  for (const std::vector<NodeId>& of_stage : makers_) {
    for (const NodeId maker : of_stage) ops[maker] = false;
  }
}

Result<FollowedChains> FollowedChains::keeping_values() const {
  std::vector<bool> ops = all_.recomputation.runs_again;
  ops.resize(wish_->input.graph().nodes.size(), false);
  leave_out_makers(ops);
  Result<Problem> all = wish_->problem_with(wish_->recompute_pins.applied_to(recomputed_names(wish_->input.model, ops)));
  if (!all) return all.error();
  FollowedChains made(*wish_, model_, makers_, *std::move(all));
  made.keeps_values_ = true;
  return made;
}

ScheduledOps FollowedChains::ops_of(std::span<const ChainOperation> schedule, const Chain& chain, std::int64_t spare_bytes) const {
  ScheduledOps ops = ops_of_schedule(model_, makers_, schedule, chain, spare_bytes);
  if (keeps_values_) leave_out_makers(ops.run_again);
  return ops;
}

// Of a node its own; of what settles or moves a value that of who made it, the first of what nobody makes.
std::uint32_t FollowedChains::stage_of(std::uint32_t variable) const {
  const Variable& it = all_.variables[variable];
  const NodeId node = it.kind == VariableKind::node ? it.node : wish_->input.graph().values[it.value].producer;
  return node == kNoId ? 0 : model_.stage_of[node];
}

// The difference of two problems, since they know what is converted again, and what hides behind it.
std::vector<TickSum> FollowedChains::ticks_again(std::span<const std::uint32_t> choice) const {
  const StrategySpace &all = all_.space, &none = wish_->problem.space;
  std::vector<TickSum> ticks(model_.stages.size(), 0);
  for (std::uint32_t i = 0; i < choice.size(); ++i) ticks[stage_of(i)] += all.nodes[i].costs[choice[i]] - none.nodes[i].costs[choice[i]];
  for (std::size_t e = 0; e < all.edges.size(); ++e) {
    const SpaceEdge& edge = all.edges[e];
    const auto cost = [&](const StrategySpace& space) {
      const CostTable& table = space.tables[space.edges[e].table];
      return table.costs[std::size_t{choice[edge.from]} * table.columns + choice[edge.to]];
    };
    // Who runs again converts what it takes; else who is made again what it makes.
    const Variable& user = all_.variables[edge.to];
    const NodeId maker = wish_->input.graph().values[all_.edges[e].value].producer;
    const bool is_users = maker == kNoId || (user.kind == VariableKind::node && all_.recomputation.runs(user.node));
    ticks[is_users ? stage_of(edge.to) : model_.stage_of[maker]] += cost(all) - cost(none);
  }
  for (TickSum& each : ticks) each /= wish_->input.training.microbatches;
  return ticks;
}

Chain FollowedChains::of(std::span<const std::uint32_t> choice) const {
  Chain chain = chain_of(wish_->input, wish_->problem, model_, choice, &all_.recomputation);
  const std::vector<TickSum> again = ticks_again(choice);
  for (std::size_t s = 0; s < chain.stages.size(); ++s) {
    // One that never runs again costs what it takes, so that no solver lets go of what it saves.
    if (std::ranges::none_of(model_.stages[s].nodes, [&](NodeId id) { return all_.recomputation.runs(id); })) continue;
    ChainStage& stage = chain.stages[s];
    const Ticks all = forward_run_ticks(stage) + backward_run_ticks(stage);
    const Ticks runs_again = earlier_first(std::clamp<TickSum>(again[s], 0, all), s, chain.stages.size());
    stage.forward_communication_ticks = std::min(stage.forward_communication_ticks, runs_again);
    stage.forward_ticks = runs_again - stage.forward_communication_ticks;
    stage.backward_communication_ticks = std::min(stage.backward_communication_ticks, all - runs_again);
    stage.backward_ticks = all - runs_again - stage.backward_communication_ticks;
  }
  return chain;
}

}  // namespace meshwright
