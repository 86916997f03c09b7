#include "pipeline_planner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cut_model.h"
#include "meshwright/pipeline_step.h"
#include "meshwright/recompute.h"
#include "meshwright/stages.h"
#include "refusal.h"
#include "stage_balance.h"
#include "stage_devices.h"

namespace meshwright {

namespace {

class PipelinePlanner {
 public:
  explicit PipelinePlanner(const PipelineRequest& request) : request_(request), stages_(request.schedule.shape.stages) {}

  Result<PipelineOutcome> run() {
    if (Status status = check_schedule(); !status) return status.error();
    Result<Cluster> part = cluster_of_stage(request_.cluster, stages_);
    if (!part) return part.error();
    cluster_ = std::move(*part);
    Result<CutModel> cut = this->cut();
    if (!cut) return cut.error();
    if (Status status = check_pins(*cut); !status) return status.error();
    profiles_.reserve(stages_);
    PipelinePlan plan;
    plan.boundaries = cut->boundaries;
    plan.shared = cut->shared;
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      Result<std::optional<Plan>> planned = plan_stage(*cut, stage);
      if (!planned) return add_context("stage " + std::to_string(stage), planned.error());
      if (!*planned) return std::move(outcome_);
      plan.stages.push_back(std::move(**planned));
    }
    if (Status status = simulate(plan); !status) return status.error();
    outcome_.plan = std::move(plan);
    return std::move(outcome_);
  }

 private:
  Status check_schedule() const {
    const PipelineSchedule& schedule = request_.schedule;
    if (schedule.shape.chunks > 1) {
      return bad_input("\"schedule\" in [search]: " + request_.schedule_id + " gives each stage " + std::to_string(schedule.shape.chunks) +
                       " chunks of the model, and plans have one part for each stage so far; take gpipe or one_f_one_b");
    }
    for (const std::vector<PipelineEvent>& order : schedule.order) {
      const auto is_part = [](const PipelineEvent& event) { return event.kind != PipelineEventKind::forward && event.kind != PipelineEventKind::backward; };
      if (std::ranges::none_of(order, is_part)) continue;
      return bad_input("\"schedule\" in [search]: " + request_.schedule_id + " cuts backwards in two, which plans do not so far; take gpipe or one_f_one_b");
    }
    return Done{};
  }

  Result<CutModel> cut() {
    const StageLink link = link_between_stages(request_.cluster, stages_);
    const BalanceWish wish{stages_, cluster_.devices(), link.seconds_per_byte, request_.pins};
    const Result<std::vector<std::uint32_t>> stage_of = balanced_stages(request_.context, wish);
    if (!stage_of) return stage_of.error();
    return cut_model(request_.context.graph(), *stage_of, stages_);
  }

  // "F0 F1 B0", as step_order.h reads it.
  [[nodiscard]] std::string order_of(std::uint32_t stage) const {
    std::string text;
    for (const PipelineEvent& event : request_.schedule.order[stage]) {
      text += (text.empty() ? "" : " ") + std::string(1, letter(event.kind)) + std::to_string(event.microbatch);
    }
    return text;
  }

  static std::set<std::string> names_in(const Graph& graph) {
    std::set<std::string> names;
    for (const Source& source : graph.sources) names.insert(source.names.begin(), source.names.end());
    for (const Value& value : graph.values) names.insert(value.name);
    for (const Node& node : graph.nodes) names.insert(node.name);
    return names;
  }

  // A name that no stage has the planner of the first one refuses.
  Status check_pins(const CutModel& cut) {
    std::vector<std::set<std::string>> names;
    for (const Graph& graph : cut.graphs) names.push_back(names_in(graph));
    pins_.resize(stages_);
    for (const Pin& pin : request_.pins) {
      if (is_of_stage(pin)) continue;
      bool any = false;
      for (std::uint32_t stage = 0; stage < stages_; ++stage) {
        if (!names[stage].contains(pin.name)) continue;
        pins_[stage].push_back(pin);
        any = true;
      }
      if (any) continue;
      if (is_of_recomputation(pin)) return bad_input(pin.where + ": pins of what runs again name ops where there are several stages, and no stage has an op '" + pin.name + "'");
      pins_.front().push_back(pin);
    }
    return Done{};
  }

  Result<std::optional<Plan>> plan_stage(const CutModel& cut, std::uint32_t stage) {
    Result<ModelAnalysis> model = analyze_model(cut.graphs[stage], request_.context.ops);
    if (!model) return model.error();
    if (!model->backward) return model->no_backward;
    TrainingSettings training = request_.context.training;
    training.order = order_of(stage);
    const Result<StepOrder> order = step_order(training);
    if (!order) return order.error();
    in_flight_.push_back(order->fullest(Phase::forward).in_flight);
    const StagePart part = cut.part_of(stage);
    profiles_.push_back(profile_of_stage(request_.context.profile, request_.cluster, stages_, cut.graphs[stage], training));
    const PlanningContext context{*model, training, request_.context.ops, profiles_.back(), request_.context.conversions, &part};
    Result<PlanRanking> ranking = rank_plans({context, cluster_, request_.solver, request_.search, [&](const Plan& plan) { return request_.lower(plan, context); }, request_.checkpoint,
                                              pins_[stage], request_.mesh, request_.budget_bytes, request_.must_fit_device, 1, true});
    if (!ranking) return ranking.error();
    outcome_.strategies_seconds += ranking->strategies_seconds;
    outcome_.search_seconds += ranking->search_seconds;
    outcome_.trials.push_back(ranking->trials);
    if (ranking->plans.empty()) {
      outcome_.refusal = "stage " + std::to_string(stage) + " of " + std::to_string(stages_) + ": " +
                         refusal_text(ranking->trials, ranking->smallest ? &*ranking->smallest : nullptr, request_.budget_bytes, request_.must_fit_device ? &request_.cluster.device : nullptr);
      return std::optional<Plan>();
    }
    FittedPlan& best = ranking->plans.front().fitted;
    if (!best.no_program.empty()) return bad_input("its plan has no program: " + best.no_program);
    best.plan.cluster = cluster_;
    best.plan.budget_bytes = request_.budget_bytes;
    Result<Program> program = request_.lower(best.plan, context);
    if (!program) return program.error();
    programs_.push_back(std::move(*program));
    return std::optional(std::move(best.plan));
  }

  Status simulate(PipelinePlan& plan) const {
    plan.schedule = request_.schedule_id;
    plan.in_flight = in_flight_;
    const Result<PipelineStep> step = simulate_stages(programs_, request_.context.ops, profiles_);
    if (!step) return step.error();
    plan.step_seconds = step->step_seconds;
    plan.busy_seconds = step->busy_seconds;
    plan.bubble = step->bubble;
    plan.imbalance = step->imbalance;
    plan.communication = step->communication;
    plan.start = step->start;
    return Done{};
  }

  const PipelineRequest& request_;
  const std::uint32_t stages_;
  Cluster cluster_;                     // of one stage
  std::vector<CostProfile> profiles_;   // by stage: their parameters' bytes differ
  std::vector<std::vector<Pin>> pins_;  // by stage
  std::vector<Program> programs_;
  std::vector<std::int64_t> in_flight_;
  PipelineOutcome outcome_;
};

}  // namespace

CostProfile profile_of_stage(CostProfile profile, const Cluster& cluster, std::uint32_t stages, const Graph& stage, const TrainingSettings& training) {
  const StageLink link = link_between_stages(cluster, stages);
  profile.stage_latency_seconds = link.latency_seconds;
  profile.stage_seconds_per_byte = link.seconds_per_byte;
  profile.parameter_bytes = parameter_bytes(stage, training);
  return profile;
}

Result<PipelineOutcome> plan_pipeline(const PipelineRequest& request) { return PipelinePlanner(request).run(); }

}  // namespace meshwright
