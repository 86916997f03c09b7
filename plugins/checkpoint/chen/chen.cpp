#include "chen.h"

#include <algorithm>
#include <string>

#include "meshwright/plugin.h"

namespace meshwright {

namespace {

// Where segments begin: wherever another share of what all stages save is complete, one of `parts`.
std::vector<std::uint32_t> cut(const Chain& chain, std::size_t parts) {
  TickSum all = 0;
  for (const ChainStage& stage : chain.stages) all += stage.saved_bytes;
  std::vector<std::uint32_t> begins = {0};
  TickSum before = 0, complete = 0;
  for (std::uint32_t stage = 0; stage < chain.stages.size(); ++stage) {
    const TickSum shares = all == 0 ? 0 : before * static_cast<TickSum>(parts) / all;
    if (shares > complete && stage > 0) begins.push_back(stage);
    complete = shares;
    before += chain.stages[stage].saved_bytes;
  }
  return begins;
}

ChainSchedule schedule_of(const Chain& chain, const std::vector<std::uint32_t>& begins) {
  ChainSchedule schedule;
  const auto end_of = [&](std::size_t segment) {
    return segment + 1 < begins.size() ? begins[segment + 1] : static_cast<std::uint32_t>(chain.stages.size());
  };
  for (std::size_t segment = 0; segment + 1 < begins.size(); ++segment) {
    schedule.push_back({ChainOperationKind::forward_keep_input, begins[segment]});
    for (std::uint32_t stage = begins[segment] + 1; stage < end_of(segment); ++stage) {
      schedule.push_back({ChainOperationKind::forward_keep_nothing, stage});
    }
  }
  for (std::size_t segment = begins.size(); segment-- > 0;) {
    for (std::uint32_t stage = begins[segment]; stage < end_of(segment); ++stage) {
      schedule.push_back({ChainOperationKind::forward_keep_all, stage});
    }
    for (std::uint32_t stage = end_of(segment); stage-- > begins[segment];) {
      schedule.push_back({ChainOperationKind::backward, stage});
    }
  }
  return schedule;
}

}  // namespace

Result<std::vector<CheckpointAnswer>> Chen::do_solve(const Chain& chain, std::span<const std::int64_t> budgets) const {
  std::vector<CheckpointAnswer> candidates;
  std::vector<std::uint32_t> tried;
  for (std::size_t parts = 1; parts <= chain.stages.size(); ++parts) {
    std::vector<std::uint32_t> begins = cut(chain, parts);
    if (begins == tried) continue;
    Result<CheckpointAnswer> answer =
        answer_by(chain, schedule_of(chain, begins), std::to_string(begins.size()) + " segments");
    if (!answer) return answer.error();
    tried = std::move(begins);
    candidates.push_back(*std::move(answer));
  }
  const auto lower = [](const CheckpointAnswer& a, const CheckpointAnswer& b) { return a.peak_bytes < b.peak_bytes; };
  const CheckpointAnswer& lowest = *std::min_element(candidates.begin(), candidates.end(), lower);
  std::vector<CheckpointAnswer> answers;
  for (const std::int64_t budget : budgets) {
    const CheckpointAnswer* best = nullptr;
    for (const CheckpointAnswer& candidate : candidates) {
      if (candidate.peak_bytes > budget) continue;
      if (best == nullptr || candidate.ticks < best->ticks ||
          (candidate.ticks == best->ticks && lower(candidate, *best)))
        best = &candidate;
    }
    answers.push_back(best == nullptr ? no_answer_below(lowest.peak_bytes, lowest.method) : *best);
  }
  return answers;
}

MESHWRIGHT_PLUGIN("checkpoint", "chen", "0.1.0", "Apache-2.0",
                  "Chen et al.: segments, of which inputs alone are kept; each runs twice", nullptr, nullptr, 0,
                  (create_plugin<CheckpointSolver, Chen>), destroy_plugin<CheckpointSolver>)

}  // namespace meshwright
