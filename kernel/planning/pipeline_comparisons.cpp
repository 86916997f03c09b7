#include "pipeline_comparisons.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cluster_part.h"
#include "comparisons.h"
#include "meshwright/pipeline_step.h"
#include "meshwright/stages.h"
#include "pipeline_planner.h"
#include "search_settings.h"
#include "stage_balance.h"
#include "stage_devices.h"

namespace meshwright {

namespace {

// One usual way to split each stage.
struct SplitStages {
  PipelineComparison comparison;
  std::vector<Program> programs;
};

class PipelineComparer {
 public:
  PipelineComparer(const PipelineRequest& request, const PipelinePlan& plan, std::span<const StagePart> parts) : request_(request), plan_(plan), parts_(parts) {}

  Result<std::vector<PipelineComparison>> run() const {
    Result<std::vector<PipelineComparison>> compared = split_stages();
    if (!compared) return compared.error();
    if (request_.cluster.parts.empty()) compared->push_back(one_stage(request_.cluster, request_.context.profile, "one stage"));
    for (const Cluster& part : request_.cluster.parts) {
      compared->push_back(one_stage(part, profile_on(request_.context.profile, part.device, request_.context.training), part_text(request_.cluster, part) + " alone"));
    }
    return compared;
  }

 private:
  // None where each stage has one device, which is not split.
  Result<std::vector<PipelineComparison>> split_stages() const {
    std::vector<SplitStages> ways{{{"data parallel in each stage"}, {}}, {{"Megatron in each stage"}, {}}};
    std::vector<CostProfile> profiles;
    bool any = false;
    const std::vector<std::uint32_t> groups = groups_of_stages(plan_.orders, plan_.stages.size()).value();
    const Result<StageDevices> devices = StageDevices::of(request_.cluster, plan_);
    if (!devices) return devices.error();
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const Plan& stage = plan_.stages[s];
      profiles.push_back(profile_of_stage(request_.context.profile, *devices, groups, parts_[s], stage.graph(), stage.training));
      const PlanningContext context{stage.model, stage.training, request_.context.ops, profiles.back(), request_.context.conversions, &parts_[s]};
      any = any || stage.mesh.rank() > 0;
      if (Status status = split_stage(s, context, ways); !status) return status.error();
    }
    std::vector<PipelineComparison> compared;
    for (SplitStages& way : ways) {
      if (!any) continue;
      if (Status status = simulate(profiles, way); !status) return status.error();
      compared.push_back(std::move(way.comparison));
    }
    return compared;
  }

  // Adds a program of the stage to each way; a note where it has none.
  Status split_stage(std::size_t s, const PlanningContext& context, std::vector<SplitStages>& ways) const {
    const Plan& stage = plan_.stages[s];
    const FittedSolver::Lower lower = [&](const Plan& plan) { return request_.lower(plan, context); };
    const FittedSolver solver([&](const ModelProblem& model, std::int64_t budget, Effort effort) { return solve_problem(request_.solver, model, budget, request_.search, effort); }, lower,
                              DeviceMemory{&stage.cluster, request_.must_fit_device});
    const Result<std::vector<Comparison>> usual = usual_plans(solver, context, stage.mesh, stage.budget_bytes);
    if (!usual) return usual.error();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const Comparison* found = usual->empty() ? nullptr : &(*usual)[i];
      std::string& note = ways[i].comparison.note;
      if (found != nullptr && !found->note.empty() && note.empty()) note = "stage " + std::to_string(s) + ": " + found->note;
      if (found != nullptr && !found->plan) continue;
      Result<Program> program = lower(found != nullptr ? *found->plan : stage);
      if (!program) return program.error();
      ways[i].programs.push_back(std::move(*program));
    }
    return Done{};
  }

  Status simulate(std::span<const CostProfile> profiles, SplitStages& way) const {
    if (way.programs.size() < plan_.stages.size()) return Done{};
    const Result<PipelineStep> step = simulate_stages(way.programs, request_.context.ops, profiles, plan_.orders);
    if (!step) return step.error();
    const std::vector<std::uint32_t> groups = groups_of_stages(plan_.orders, plan_.stages.size()).value();
    way.comparison.step_seconds = step->step_seconds;
    const std::vector<std::int64_t> peaks = peaks_of_groups(way.programs, joint_order(way.programs, plan_.orders).value(), groups);
    way.comparison.peak_bytes = std::ranges::max(peaks);
    for (std::size_t s = 0; s < groups.size(); ++s) {
      if (way.comparison.note.empty() && peaks[groups[s]] > budget_on(request_, plan_.stages[s].cluster)) way.comparison.note = "does not fit the budget";
    }
    return Done{};
  }

  // The whole model on all of these.
  [[nodiscard]] PipelineComparison one_stage(const Cluster& cluster, const CostProfile& profile, const std::string& name) const {
    PipelineComparison comparison{name, {}, 0, "", cluster.devices()};
    const PlanningContext context{request_.context.model, request_.context.training, request_.context.ops, profile, request_.context.conversions};
    std::vector<Pin> pins;
    std::ranges::copy_if(request_.pins, std::back_inserter(pins), [](const Pin& pin) { return !is_of_stage(pin); });
    const auto lower = [&](const Plan& plan) { return request_.lower(plan, context); };
    const Result<PlanRanking> ranking = rank_plans({context, cluster, request_.solver, request_.search, lower, request_.checkpoint, pins, "", budget_on(request_, cluster),
                                                    request_.must_fit_device, 1, false});
    if (!ranking) {
      comparison.note = ranking.error().message;
    } else if (ranking->plans.empty()) {
      comparison.note = "no plan was found that fits the budget";
    } else {
      const Plan& plan = ranking->plans.front().fitted.plan;
      comparison.step_seconds = plan.step_seconds;
      comparison.peak_bytes = plan.peak_bytes;
      comparison.note = "on mesh " + to_string(plan.mesh) + ", searched for by its objective alone";
    }
    return comparison;
  }

  const PipelineRequest& request_;
  const PipelinePlan& plan_;
  const std::span<const StagePart> parts_;
};

}  // namespace

Result<std::vector<PipelineComparison>> pipeline_comparisons(const PipelineRequest& request, const PipelinePlan& plan, std::span<const StagePart> parts) {
  return PipelineComparer(request, plan, parts).run();
}

}  // namespace meshwright
