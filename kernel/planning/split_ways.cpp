#include "split_ways.h"

#include <algorithm>
#include <utility>

#include "joint_space.h"
#include "known_prices.h"
#include "meshwright/mesh.h"
#include "meshwright/recompute.h"
#include "meshwright/step_order.h"
#include "recompute_pins.h"
#include "search_settings.h"

namespace meshwright {

namespace {

constexpr double kGapOfPriced = 1e-6;  // steep prices make sums that a solver may have to round

// What a space holds by each node's strategy where a forward ends and a backward begins: of each microbatch in flight, and all the time.
struct HeldBytes {
  std::vector<std::vector<double>> saved, resident;
};

// All microbatches are held there whole; at the very end of a backward only the others are.
HeldBytes held_bytes(const StrategySpace& space, std::int32_t middle, double in_flight) {
  HeldBytes held;
  for (const SpaceNode& node : space.nodes) {
    held.saved.emplace_back(node.costs.size(), 0.0);
    held.resident.emplace_back(node.costs.size(), 0.0);
  }
  const std::int32_t end = 2 * middle - 1;
  for (const MemoryTerm& term : space.memory) {
    const bool at_middle = term.begin <= middle && middle < term.end, at_end = term.begin <= end && end < term.end;
    for (std::size_t s = 0; s < term.bytes.size(); ++s) {
      const auto bytes = static_cast<double>(term.bytes[s]);
      held.saved[term.node][s] += (at_middle ? bytes : 0) - (at_end ? bytes : 0);
      held.resident[term.node][s] += at_middle ? bytes : 0;
    }
  }
  for (std::size_t n = 0; n < held.saved.size(); ++n) {
    for (std::size_t s = 0; s < held.saved[n].size(); ++s) {
      double& saved = held.saved[n][s];
      saved = std::max(saved, 0.0);
      held.resident[n][s] = std::max(held.resident[n][s] - in_flight * saved, 0.0);
    }
  }
  return held;
}

}  // namespace

class SplitWays::Impl {
 public:
  Impl(const SplitRequest& request, Mesh mesh, const StrategyFilter& filter, RecomputePins pins)
      : request_(request), prices_(request.context.conversions), mesh_(std::move(mesh)), input_{with_prices(request.context, prices_), mesh_, filter}, pins_(std::move(pins)) {
    const std::string& recompute = request.search.text("recompute");
    input_.recomputed = pins_.applied_to(recompute == "all" ? recomputable_blocks(input_.model) : input_.recomputed);
    may_run_again_ = (recompute == "free" || recompute == "blocks") && !recomputable_blocks(input_.model).empty();
  }

  // False where there is no way.
  Result<bool> begin() {
    Result<Problem> problem = build_pinned(input_, request_.pins, strategies_);
    if (!problem && problem.error().code == ErrorCode::infeasible) return false;
    if (!problem) return problem.error();
    problem_ = std::move(*problem);
    Problem free = problem_;
    free.space.memory.clear();
    Result<Assignment> answer = request_.solver.solve(input_, free, kNoBudget, kAnyWork);
    if (!answer) return answer.error();
    if (answer->choice.empty()) return false;
    usual_price_ = to_seconds(answer->cost) / static_cast<double>(std::max<std::int64_t>(evaluate(problem_.space, answer->choice).peak_bytes, 1));
    const Result<bool> added = add_way(answer->choice, input_.recomputed);
    return added || added.error().code != ErrorCode::bad_input ? added : Result<bool>(false);
  }

  Result<bool> add(double seconds_per_byte, double in_flight) {
    if (!request_.prices) return false;
    if (may_run_again_ && !joint_) {
      if (Status status = make_joint(); !status) return status.error();
    }
    const StrategySpace& space = joint_ ? joint_space_ : problem_.space;
    if (held_.saved.empty()) held_ = held_bytes(space, static_cast<std::int32_t>(problem_.variables.size()), request_.context.training.microbatches > 1 ? 2 : 1);
    Problem priced;
    priced.space = space;
    priced.space.memory.clear();
    for (std::size_t n = 0; n < space.nodes.size(); ++n) {
      for (std::size_t s = 0; s < space.nodes[n].costs.size(); ++s) {
        Ticks& cost = priced.space.nodes[n].costs[s];
        if (cost < kForbidden) cost += to_ticks(seconds_per_byte * (held_.resident[n][s] + in_flight * held_.saved[n][s]));
      }
    }
    const Result<Assignment> answer = request_.solver.solve(input_, priced, kNoBudget, {kAnyWork, kGapOfPriced});
    if (!answer) return answer.error();
    if (answer->choice.empty()) return false;
    const Result<bool> added = joint_ ? add_way(joint_->layouts(answer->choice), joint_->recomputed(answer->choice)) : add_way(answer->choice, input_.recomputed);
    return added || added.error().code != ErrorCode::bad_input ? added : Result<bool>(false);
  }

  void take_least(std::vector<LeastComputing>& least) const { meshwright::take_least(problem_, least); }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const StrategyFilter& filter() const { return input_.filter; }
  [[nodiscard]] const ConversionSearch& prices() const { return prices_; }
  [[nodiscard]] KnownStrategies& strategies() const { return strategies_; }
  [[nodiscard]] const std::vector<SplitWay>& ways() const { return ways_; }
  [[nodiscard]] double usual_price() const { return usual_price_; }

 private:
  Result<Problem> problem_with(std::vector<std::string> names) const {
    ProblemInput given = input_;
    given.recomputed = pins_.applied_to(names);
    return build_pinned(given, request_.pins, strategies_);
  }

  Status make_joint() {
    const ModelAnalysis& model = input_.model;
    Result<Problem> again = problem_with(recomputable_blocks(model));
    if (!again) return again.error();
    Result<Problem> converted = problem_with(recomputed_names(model, std::vector<bool>(model.graph->nodes.size(), false), convertible_operands(model)));
    if (!converted) return converted.error();
    again_ = std::move(*again);
    converted_ = std::move(*converted);
    joint_.emplace(input_, JointSpace::Problems{problem_, again_, &converted_}, pins_);
    joint_space_ = joint_->space();
    return Done{};
  }

  Result<bool> add_way(std::vector<std::uint32_t> layouts, std::vector<std::string> recomputed) {
    const auto is_known = [&](const SplitWay& way) { return way.layouts == layouts && way.recomputed == recomputed; };
    if (std::ranges::any_of(ways_, is_known)) return false;
    ProblemInput given = input_;
    given.recomputed = recomputed;
    std::optional<Problem> other;
    if (recomputed != input_.recomputed) {
      Result<Problem> made = build_pinned(given, request_.pins, strategies_);
      if (!made) return made.error();
      other = std::move(*made);
    }
    const Problem& problem = other ? *other : problem_;
    const Evaluation evaluation = evaluate(problem.space, layouts);
    if (!evaluation.allowed) return false;
    Assignment assignment;
    assignment.choice = layouts;
    assignment.cost = evaluation.cost;
    assignment.peak_bytes = evaluation.peak_bytes;
    Result<Plan> plan = make_plan(given, problem, assignment);
    if (!plan) return plan.error();
    const Result<Program> program = request_.lower(*plan);
    if (!program) return program.error();
    Result<std::vector<UnitCost>> costs = unit_costs(*plan, *program, request_.units, input_.ops, input_.profile);
    if (!costs) return costs.error();
    ways_.push_back({std::move(*costs), std::move(layouts), std::move(recomputed)});
    return true;
  }

  const SplitRequest request_;
  const KnownPrices prices_;
  const Mesh mesh_;
  ProblemInput input_;
  const RecomputePins pins_;
  mutable KnownStrategies strategies_;
  bool may_run_again_ = false;
  Problem problem_, again_, converted_;
  std::optional<JointSpace> joint_;
  StrategySpace joint_space_;
  HeldBytes held_;
  double usual_price_ = 0;
  std::vector<SplitWay> ways_;
};

Result<std::optional<SplitWays>> SplitWays::make(const SplitRequest& request, const Cluster& stage, const std::vector<std::int64_t>& shape, bool batch_first) {
  Result<Mesh> mesh = make_mesh(stage, shape);
  if (!mesh) return mesh.error();
  Result<StrategyFilter> filter = wanted_filter(batch_first ? with_batch_first(request.search) : request.search, *mesh);
  if (!filter) return filter.error();
  Result<RecomputePins> pins = RecomputePins::make(request.context.model, request.pins);
  if (!pins) return pins.error();
  auto impl = std::make_unique<Impl>(request, std::move(*mesh), *filter, std::move(*pins));
  const Result<bool> begun = impl->begin();
  if (!begun) return begun.error();
  if (!*begun) return std::optional<SplitWays>();
  return std::optional(SplitWays(std::move(impl)));
}

SplitWays::SplitWays(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SplitWays::SplitWays(SplitWays&&) noexcept = default;
SplitWays::~SplitWays() = default;

const Mesh& SplitWays::mesh() const { return impl_->mesh(); }
const Problem& SplitWays::problem() const { return impl_->problem(); }
const StrategyFilter& SplitWays::filter() const { return impl_->filter(); }
const ConversionSearch& SplitWays::prices() const { return impl_->prices(); }
KnownStrategies& SplitWays::strategies() const { return impl_->strategies(); }
const std::vector<SplitWay>& SplitWays::ways() const { return impl_->ways(); }
Result<bool> SplitWays::add(double seconds_per_byte, double in_flight) { return impl_->add(seconds_per_byte, in_flight); }
double SplitWays::usual_price() const { return impl_->usual_price(); }
void SplitWays::take_least(std::vector<LeastComputing>& least) const { impl_->take_least(least); }

}  // namespace meshwright
