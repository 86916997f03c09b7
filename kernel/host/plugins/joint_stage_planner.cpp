#include "plugins/joint_stage_planner.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "joint_stages.h"
#include "plugins/stage_trials.h"
#include "stage_balance.h"
#include "stopwatch.h"

namespace meshwright::host {

namespace {

constexpr std::int64_t kMostUnlikeStages = 16;
constexpr int kMostCuts = 3;               // of each choice
constexpr double kWorthAnotherCut = 0.01;  // of a large model's step is lost, since some devices have more to do than others

// How many choices are planned, the most promising first; behind them those of unlike numbers of devices, which are many and alike; and by how much an estimate may be too long.
struct PlanEffort {
  int most = 3, most_unlike = 1;
  double doubt = 1;
};
constexpr PlanEffort kOfTiny{40, 8, 1.3}, kOfSmall{6, 2, 1.1}, kOfLarge{3, 1, 1};
constexpr double kAnySeconds = std::numeric_limits<double>::infinity();
constexpr int kMostUnfit = 2;   // plans of a large model's choices of one number of stages, until one fits
constexpr double kNear = 1.03;  // over the best step: so near a large model's choice of another number of stages is planned too
constexpr std::size_t kMostTinyOps = 400;  // what stands at the ends of so small a model is much of it, and estimates are the less exact

class JointPlanner {
 public:
  JointPlanner(PluginHost& host, PlanningSession session) : host_(host), config_(host.config()), trials_(config_, std::move(session)) {}

  Result<PlanOutcome> run() {
    Stopwatch watch;
    Result<StageSizes> sizes = read_stage_sizes(host_, trials_.session());
    if (!sizes) return sizes.error();
    PlanningSession& session = trials_.session();
    if (Status status = check_equal_devices(session.cluster(), "joint"); !status) return status.error();
    const PlanningContext context = session.context();
    const JointStagesRequest request{context,
                                     session.cluster(),
                                     session.solver(),
                                     config_.search,
                                     config_.pins,
                                     session.mesh(),
                                     session.budget_bytes(),
                                     config_.joint.integer("most_searched_ops"),
                                     config_.train.text("batch_coupling") == "allow",
                                     sizes->stages,
                                     sizes->microbatches,
                                     unlike_stages(*sizes),
                                     sizes->schedules,
                                     static_cast<std::uint32_t>(config_.search.integer("chunks")),
                                     [this](const StageChoice& choice) { return trials_.schedule(choice); },
                                     [&session](const Plan& plan, const PlanningContext& of) { return session.program(plan, of); }};
    Result<JointStages> joint = JointStages::make(request);
    if (!joint) return joint.error();
    Result<std::vector<StageTrial>> found = joint->search();
    if (!found) return found.error();
    search_.trials = std::move(*found);
    search_.left_out = left_out_by(config_, *sizes);
    search_.left_out.insert(search_.left_out.end(), joint->left_out().begin(), joint->left_out().end());
    const double seconds = watch.lap();
    if (Status status = plan_best(*joint); !status) return status.error();
    return trials_.finish(std::move(search_), seconds);
  }

 private:
  // Numbers of stages that may have unlike numbers of devices: a mesh is of one number.
  std::vector<std::int64_t> unlike_stages(const StageSizes& sizes) {
    std::vector<std::int64_t> numbers;
    if (!trials_.session().mesh().empty()) return numbers;
    const std::int64_t given = config_.given.stages ? sizes.stages.front() : 0, devices = trials_.session().cluster().devices();
    for (std::int64_t stages = 2; stages <= std::min(devices, kMostUnlikeStages); ++stages) {
      if (given == 0 || stages == given) numbers.push_back(stages);
    }
    return numbers;
  }

  Status plan_best(JointStages& joint) {
    const bool is_tiny = trials_.session().context().graph().nodes.size() <= kMostTinyOps;
    const PlanEffort effort = !joint.is_small() ? kOfLarge : is_tiny ? kOfTiny : kOfSmall;
    if (Status status = plan_promising(joint, effort.most, effort.doubt, false); !status) return status;
    if (Status status = joint.is_small() ? Status(Done{}) : plan_near(joint); !status) return status;
    return plan_promising(joint, effort.most_unlike, effort.doubt, true);
  }

  Status plan_promising(JointStages& joint, int most, double doubt, bool unlike) {
    for (int planned = 0; planned < most;) {
      StageTrial* next = most_promising(doubt, [&](const StageTrial& trial) { return trial.choice.devices.empty() != unlike; });
      if (next == nullptr) break;
      const double expected = next->estimate_seconds;
      if (Status status = joint.settle(*next, kAnySeconds); !status) return status;
      if (next->state != TrialState::estimated || next->estimate_seconds > expected) continue;
      if (Status status = plan(joint, *next); !status) return status;
      if (next->state == TrialState::planned) ++planned;
    }
    return Done{};
  }

  // Estimates of unlike numbers of stages are off by unlike parts: of each number of which nothing is planned, the most promising choice that fits.
  Status plan_near(JointStages& joint) {
    std::set<std::uint32_t> numbers;
    for (const StageTrial& trial : search_.trials) numbers.insert(trial.choice.stages);
    for (const std::uint32_t stages : numbers) {
      const auto is_one = [&](const StageTrial& trial) { return trial.choice.stages == stages && trial.choice.devices.empty(); };
      for (int unfit = 0; unfit < kMostUnfit;) {
        if (std::ranges::any_of(search_.trials, [&](const StageTrial& trial) { return is_one(trial) && trial.state == TrialState::planned; })) break;
        StageTrial* next = most_promising(kNear, is_one);
        if (next == nullptr) break;
        const double expected = next->estimate_seconds;
        if (Status status = joint.settle(*next, trials_.best_seconds().value_or(kAnySeconds)); !status) return status;
        if (!may_be_shorter(*next, kNear) || next->estimate_seconds > expected) continue;
        if (Status status = plan(joint, *next); !status) return status;
        ++unfit;
      }
    }
    return Done{};
  }

  // Where estimates may be too long by such a factor.
  [[nodiscard]] bool may_be_shorter(const StageTrial& trial, double doubt) const {
    return trial.state == TrialState::estimated && (!trials_.best_seconds() || trial.estimate_seconds < doubt * *trials_.best_seconds());
  }

  // Of such choices one that may be better than the best plan; null if none is.
  template <class IsOne>
  StageTrial* most_promising(double doubt, IsOne is_one) {
    StageTrial* best = nullptr;
    for (StageTrial& trial : search_.trials) {
      if (!is_one(trial) || !may_be_shorter(trial, doubt)) continue;
      if (best == nullptr || trial.estimate_seconds < best->estimate_seconds) best = &trial;
    }
    return best;
  }

  Status plan(JointStages& joint, StageTrial& trial) {
    int count = 0;
    const auto next = [&](const PipelinePlan* planned) -> Result<std::optional<StageCutWish>> {
      if (count == kMostCuts) return std::optional<StageCutWish>();
      if (++count == 1) return std::optional(joint.wish(trial.choice));
      if (planned == nullptr) return joint.smaller_wish(trial.choice);
      if (!joint.is_small() && planned->imbalance < kWorthAnotherCut) return std::optional<StageCutWish>();
      return joint.wish_after(trial.choice, planned->busy_seconds);
    };
    return trials_.plan(trial, {next, joint.is_small()});
  }

  PluginHost& host_;
  const HostConfig& config_;
  StageTrials trials_;
  StageSearch search_{"a joint search", {}, {}};
};

}  // namespace

Result<PlanOutcome> plan_joint_stages(const PlanOptions& options, PluginHost& host) {
  const std::vector<Pin>& pins = host.config().pins;
  if (const auto pin = std::ranges::find_if(pins, is_of_stage); pin != pins.end()) {
    return bad_input(pin->where + " says in which stage a module is, and inter = \"joint\" in [search] chooses cuts by what few layers take; leave one out, or take inter = \"grid\"");
  }
  const PlanOptions each = for_trials(options);
  Result<PlanningSession> session = open_for_trials(each, host);
  if (!session) return session.error();
  return JointPlanner(host, std::move(*session)).run();
}

}  // namespace meshwright::host
