#include "plugins/asked_price.h"

#include <algorithm>
#include <utility>

#include "config/toml_config.h"
#include "meshwright/memory_profile.h"
#include "meshwright/pipeline_step.h"
#include "meshwright/schedule.h"
#include "meshwright/stages.h"
#include "meshwright/timeline.h"
#include "pipeline_planner.h"
#include "planner.h"
#include "plugins/plugin_host.h"
#include "plugins/program_source.h"

namespace meshwright::host {

namespace {

// More than any device has: what a plan takes that fits none can still be said.
constexpr std::int64_t kAllMemory = std::int64_t{1} << 50;

// What a plan of one stage or of several is of, as a plan of one.
Plan whole_of(const std::variant<Plan, PipelinePlan>& plan) {
  if (const auto* one = std::get_if<Plan>(&plan)) return *one;
  const PipelinePlan& pipeline = std::get<PipelinePlan>(plan);
  Plan whole;
  whole.model = pipeline.model;
  whole.cluster = pipeline.cluster;
  whole.training = pipeline.training;
  whole.plugins = pipeline.plugins;
  whole.budget_bytes = pipeline.budget_bytes;
  return whole;
}

// As its programs are now, whatever its file says.
Result<PlanPrice> price_of(const Plan& plan, const ProgramTools& tools) {
  const Result<Program> program = make_program(plan, tools);
  if (!program) return program.error();
  const Result<Timeline> timeline = make_timeline(*program, *tools.ops, tools.profile);
  if (!timeline) return timeline.error();
  return PlanPrice{timeline->step_seconds, memory_profile(*program).peak_bytes};
}

Result<PlanPrice> price_of(const PipelinePlan& pipeline, const ProgramTools& tools) {
  const Result<StagePrograms> made = make_programs(pipeline, tools);
  if (!made) return made.error();
  const Result<PipelineStep> step = simulate_stages(made->programs, *tools.ops, made->profiles, pipeline.orders);
  if (!step) return step.error();
  const Result<std::vector<std::uint32_t>> groups = groups_of_stages(pipeline.orders, pipeline.stages.size());
  if (!groups) return groups.error();
  const Result<JointOrder> order = joint_order(made->programs, pipeline.orders);
  if (!order) return order.error();
  return PlanPrice{step->step_seconds, std::ranges::max(peaks_of_groups(made->programs, *order, *groups))};
}

// A plan that is asked for, or why there is none.
struct AskedAnswer {
  std::optional<PlanPrice> price;
  std::string refusal;
};

class Asker {
 public:
  Asker(const Plan& whole, PluginHost& host, const ProgramTools& tools, const AskedPlan& asked) : whole_(whole), host_(host), tools_(tools), training_(whole.training), pins_(host.config().pins) {
    training_.order.clear();
    for (const auto& [name, text] : asked.pins) pins_.push_back({name, text, "the plan that the file stands for"});
  }

  Result<AskedAnswer> ask(std::int64_t budget, bool must_fit) const {
    const Config& search = host_.config().search;
    const Result<std::shared_ptr<IntraSolver>> solver = host_.create<IntraSolver>("intra", search.text("intra"));
    if (!solver) return solver.error();
    const std::string& mesh = host_.config().cluster.text("mesh");
    const PlanningContext context = tools_.context(whole_.model, training_);
    if (search.integer("stages") > 1) return ask_stages({context, whole_.cluster, **solver, search, nullptr, pins_, mesh, budget, must_fit, {}, search.text("schedule"), {}, false});
    const auto lower = [this, &context](const Plan& plan) { return make_program(plan, context, tools_); };
    const Result<PlanRanking> found = rank_plans({context, whole_.cluster, **solver, search, lower, nullptr, pins_, mesh, budget, must_fit, 1, true, false, false});
    if (!found) return refused(found.error());
    if (found->plans.empty()) return AskedAnswer{{}, found->trials.empty() ? "nothing was found" : found->trials.front().binding};
    const Plan& plan = found->plans.front().fitted.plan;
    return AskedAnswer{PlanPrice{plan.step_seconds, plan.peak_bytes}, ""};
  }

 private:
  Result<AskedAnswer> ask_stages(PipelineRequest request) const {
    const Result<std::shared_ptr<ScheduleMaker>> maker = host_.create<ScheduleMaker>("schedules", request.schedule_id);
    if (!maker) return maker.error();
    Result<PipelineSchedule> schedule = (*maker)->make({static_cast<std::uint32_t>(request.search.integer("stages")), static_cast<std::uint32_t>(request.search.integer("chunks")),
                                                        static_cast<std::uint32_t>(training_.microbatches)});
    if (!schedule) return refused(schedule.error());
    request.schedule = std::move(*schedule);
    request.lower = [this](const Plan& plan, const PlanningContext& stage) { return make_program(plan, stage, tools_); };
    const Result<PipelineOutcome> found = plan_pipeline(request);
    if (!found) return refused(found.error());
    if (!found->plan) return AskedAnswer{{}, found->refusal};
    return AskedAnswer{PlanPrice{found->plan->step_seconds, std::ranges::max(found->plan->peak_bytes)}, ""};
  }

  // What cannot be planned is an answer, but for what is wrong with a plugin.
  static Result<AskedAnswer> refused(const Error& error) {
    if (error.code != ErrorCode::bad_input && error.code != ErrorCode::infeasible) return error;
    return AskedAnswer{{}, error.message};
  }

  const Plan& whole_;
  PluginHost& host_;
  const ProgramTools& tools_;
  TrainingSettings training_;
  std::vector<Pin> pins_;
};

}  // namespace

Result<AskedPrice> price_asked(const AskedPlan& asked, const std::variant<Plan, PipelinePlan>& plan, const std::string& config, std::vector<std::string> set) {
  set.insert(set.end(), asked.settings.begin(), asked.settings.end());
  set.emplace_back("search.sure=false");  // no runner-up is shown
  Result<ConfigTree> tree = read_config(config, set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  const Plan whole = whole_of(plan);
  const Result<ProgramTools> tools = open_tools(*host, whole);
  if (!tools) return tools.error();
  AskedPrice made;
  made.budget_bytes = whole.budget_bytes;
  const auto* pipeline = std::get_if<PipelinePlan>(&plan);
  const Result<PlanPrice> price = pipeline != nullptr ? price_of(*pipeline, *tools) : price_of(std::get<Plan>(plan), *tools);
  if (!price) return price.error();
  made.plan = *price;
  const Asker asker(whole, *host, *tools, asked);
  Result<AskedAnswer> found = asker.ask(whole.budget_bytes, whole.budget_bytes >= largest_peak_bytes(whole.cluster));
  if (!found) return found.error();
  made.refusal = found->refusal;
  if (!found->price) found = asker.ask(kAllMemory, false);
  if (!found) return found.error();
  if (!found->price) made.refusal = found->refusal;
  made.asked = found->price;
  return made;
}

}  // namespace meshwright::host
