#include "joint_stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cluster_part.h"
#include "found_cut.h"
#include "joint_line.h"
#include "meshwright/memory_account.h"
#include "stage_devices.h"
#include "unlike_numbers.h"

namespace meshwright {

namespace {

constexpr double kCountedOn = 0.97;              // of a device's memory, by an estimate
constexpr std::int64_t kUsualCommunicators = 6;  // of a mesh of three axes
constexpr double kLessMemory = 0.93;             // where that did not fit
constexpr double kWorthRefining = 1.1;           // over the best estimate
constexpr double kWorthRefiningFirst = 1.15;     // the first of as many stages and microbatches
constexpr std::uint32_t kMostChunks = 8;
constexpr double kAboutTheLeast = 1.02;          // of what is hoped for
constexpr double kTicksApart = 1e-9;             // of floors, which are sums in another order than the simulation's
constexpr std::size_t kMostDeviceLists = 64;     // of a small model in a given number of stages: its estimates are off by more than devices make
constexpr const char* kNoSmallWay = "no way to split it that was found holds so little";
constexpr double kNothing = std::numeric_limits<double>::infinity();

// Schedules of two chunks wait half as long; those of backwards in two parts may not wait.
double least_waits(std::int64_t stages, std::int64_t microbatches) { return static_cast<double>(stages - 1) / static_cast<double>(microbatches) / 3; }

bool are_alike(const std::vector<std::int64_t>& devices) { return std::ranges::all_of(devices, [&](std::int64_t each) { return each == devices.front(); }); }

}  // namespace

class JointStages::Impl {
 public:
  explicit Impl(const JointStagesRequest& request) : request_(request), context_(request_.context) {}

  Status read() {
    Result<JointModel> model = JointModel::make(request_);
    if (!model) return model.error();
    model_ = std::move(*model);
    const ModelUnits& units = model_.units;
    for (std::size_t id = 0; id < units.seconds.size(); ++id) seconds_ += units.bound[id] ? static_cast<double>(context_.training.microbatches) * units.seconds[id] : 0;
    return Done{};
  }

  Result<std::vector<StageTrial>> search() {
    std::vector<Pair> pairs = all_pairs();
    while (!pairs.empty()) {
      for (Pair& pair : pairs) pair.seconds = hoped_seconds(pair);
      hopeless_ += std::erase_if(pairs, [&](const Pair& pair) { return best_seconds_ <= pair.seconds; });
      if (pairs.empty()) break;
      const auto next = most_promising(pairs);
      // Once the best is refined, that may be hopeless.
      const Result<bool> refined = best_seconds_ < kWorthRefiningFirst * next->seconds ? refine_best() : Result<bool>(false);
      if (!refined) return refined.error();
      if (*refined) continue;
      const Pair pair = *next;
      pairs.erase(next);
      if (Status status = try_pair(pair); !status) return status.error();
    }
    if (Status status = refine_all(); !status) return status.error();
    if (Status status = try_unlike_devices(); !status) return status.error();
    if (Status status = refine_all(); !status) return status.error();
    say_what_is_left_out();
    return trials_;
  }

  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

  [[nodiscard]] bool is_small() const { return model_.is_small(request_); }

  Status settle(StageTrial& trial, double worth_seconds) {
    FoundCut& here = found(trial.choice);
    if (here.settled) return Done{};
    const Result<bool> fits = here.settle();
    if (!fits) return fits.error();
    if (!*fits) {
      trial.state = TrialState::unfit;
      trial.reason = kNoSmallWay;
      return Done{};
    }
    if (Status status = here.refine(kWorthRefining * worth_seconds); !status) return status;
    trial.estimate_seconds = here.cut.step_seconds;
    return Done{};
  }

  [[nodiscard]] StageCutWish wish(const StageChoice& choice) const { return wish_of(found(choice)); }

  std::optional<StageCutWish> wish_after(const StageChoice& choice, const std::vector<double>& busy_seconds) {
    FoundCut& here = found(choice);
    StageLine line = here.corrected ? *here.corrected : here.line->line();
    std::size_t from = 0;
    for (std::size_t position = 0; position < here.cut.stages.size(); ++position) {
      const double expected = here.cut.stages[position].step_seconds(static_cast<double>(choice.microbatches));
      if (expected > 0) line.correct(from, here.cut.shape.ends[position], busy_seconds[position] / expected);
      from = here.cut.shape.ends[position];
    }
    here.corrected.emplace(std::move(line));
    return wish_again(here, wish_of(here));
  }

  Result<std::optional<StageCutWish>> smaller_wish(const StageChoice& choice) {
    FoundCut& here = found(choice);
    here.bytes *= kLessMemory;
    const StageCutWish before = wish_of(here);
    const Result<bool> fits = here.settle();
    if (!fits) return fits.error();
    if (!*fits) return std::optional<StageCutWish>();
    if (Status status = here.refine(kNothing); !status) return status.error();
    return wish_again(here, before);
  }

 private:
  // Numbers of stages and microbatches, and what is hoped for at best: an estimate, by which what is hopeless is not looked at.
  struct Pair {
    std::int64_t stages = 1, microbatches = 1;
    double seconds = 0;
  };

  FoundCut& found(const StageChoice& choice) { return std::ranges::find(found_, choice, &std::pair<StageChoice, FoundCut>::first)->second; }
  [[nodiscard]] const FoundCut& found(const StageChoice& choice) const { return std::ranges::find(found_, choice, &std::pair<StageChoice, FoundCut>::first)->second; }

  [[nodiscard]] std::vector<Pair> all_pairs() const {
    std::vector<Pair> pairs;
    for (const std::int64_t microbatches : request_.microbatches) {
      for (const std::int64_t stages : request_.stages) {
        if (stages <= std::ssize(model_.units.units)) pairs.push_back({stages, microbatches});
      }
    }
    return pairs;
  }

  // All devices together, each as fast as one alone; or, where that is known, as it is among as many or fewer in as few microbatches or fewer, which are no smaller and pass no more between devices.
  [[nodiscard]] double hoped_seconds(const Pair& pair) const {
    const std::int64_t all = request_.cluster.devices();
    double seconds = seconds_;
    for (auto line = lines_.begin(); line != lines_.end() && line->first <= pair.microbatches; ++line) {
      seconds = std::max(seconds, static_cast<double>(line->first) * line->second->most_device_seconds(all / pair.stages));
    }
    return seconds / static_cast<double>(all) * (1 + least_waits(pair.stages, pair.microbatches));
  }

  // Of those that are hoped to take about the least, one of the fewest microbatches, from which most is learnt of others.
  [[nodiscard]] static std::vector<Pair>::iterator most_promising(std::vector<Pair>& pairs) {
    const double least = std::ranges::min_element(pairs, {}, &Pair::seconds)->seconds;
    return std::ranges::find_if(pairs, [&](const Pair& pair) { return pair.seconds <= kAboutTheLeast * least; });
  }

  void refuse(const StageChoice& choice, std::string reason) {
    StageTrial& trial = trials_.emplace_back();
    trial.choice = choice;
    trial.state = TrialState::refused;
    trial.reason = std::move(reason);
  }

  Status try_pair(const Pair& pair) {
    const auto stages = static_cast<std::uint32_t>(pair.stages);
    const auto refused = [&](const Error& error) {
      if (error.code != ErrorCode::bad_input) return Status(error);
      refuse({stages, "", pair.microbatches}, error.message);
      return Status(Done{});
    };
    const Result<StageDevices> devices = StageDevices::even(request_.cluster, stages);
    if (!devices) return refused(devices.error());
    const Result<JointLine*> line = line_of(pair.microbatches);
    if (!line) return refused(line.error());
    if (Status status = (*line)->add_devices(devices->cluster(0), lines_); !status) return refused(status.error());
    const std::int64_t each = devices->devices(0);
    if (!(*line)->has(each)) return refused(bad_input("no mesh of " + std::to_string(each) + " devices has a strategy for each op"));
    return try_schedules(**line, pair, *devices);
  }

  Result<JointLine*> line_of(std::int64_t microbatches) {
    std::unique_ptr<JointLine>& known = lines_[microbatches];
    if (known != nullptr) return known.get();
    Result<std::unique_ptr<JointLine>> made = JointLine::make(request_, model_, microbatches);
    if (!made) return made.error();
    known = std::move(*made);
    return known.get();
  }

  // What a stage sends of a microbatch to the next one, at a place in the middle of the line.
  [[nodiscard]] double hop_seconds(std::int64_t microbatches, const StageDevices& devices) const {
    if (devices.groups() == 1) return 0;
    const StageLink link = devices.slowest_link();
    const std::vector<ModelUnit>& units = model_.units.units;
    const double bytes = static_cast<double>(units[units.size() / 2].crossing_bytes) * static_cast<double>(context_.training.microbatches) / static_cast<double>(microbatches);
    return link.latency_seconds + link.seconds_per_byte * bytes;
  }

  Status try_schedules(JointLine& line, const Pair& pair, const StageDevices& devices) {
    const auto stages = static_cast<std::uint32_t>(pair.stages);
    if (stages == 1) return try_each(line, {{{1, "", pair.microbatches}, one_stage(pair.microbatches)}}, devices);
    std::vector<std::pair<StageChoice, PipelineSchedule>> seen;
    for (const std::string& id : request_.schedules) {
      std::uint32_t chunks = request_.chunks;
      while (chunks <= kMostChunks || chunks == request_.chunks) {
        const StageChoice choice{stages, id, pair.microbatches, chunks};
        Result<PipelineSchedule> schedule = request_.schedule(choice);
        if (!schedule && schedule.error().code != ErrorCode::bad_input) return schedule.error();
        if (!schedule) {
          if (chunks == request_.chunks) refuse(choice, schedule.error().message);
          break;
        }
        const std::uint32_t has = schedule->shape.chunks;
        const auto same = std::ranges::find(seen, *schedule, &std::pair<StageChoice, PipelineSchedule>::second);
        if (same != seen.end()) {
          refuse(choice, "the same order as " + same->first.schedule);
        } else {
          seen.emplace_back(choice, std::move(*schedule));
        }
        if (has == 1 || request_.chunks > 0 || std::size_t{2} * has * stages > model_.units.units.size()) break;
        chunks = 2 * has;
      }
    }
    return try_each(line, std::move(seen), devices);
  }

  // Those that hold least first: of the others, some need not be looked at then.
  Status try_each(JointLine& line, std::vector<std::pair<StageChoice, PipelineSchedule>> schedules, const StageDevices& devices) {
    const auto held = [](const std::pair<StageChoice, PipelineSchedule>& each) {
      double sum = 0;
      for (const PositionLoad& load : loads_by_position(each.second)) sum += load.in_flight / each.second.shape.chunks;
      return sum;
    };
    std::ranges::stable_sort(schedules, {}, held);
    std::vector<TriedSchedule> tried;
    for (auto& [choice, schedule] : schedules) {
      if (Status status = try_schedule(line, choice, std::move(schedule), devices, tried); !status) return status;
    }
    return Done{};
  }

  [[nodiscard]] bool is_settled(const StageTrial& trial) const { return trial.state == TrialState::estimated && found(trial.choice).settled; }

  // Of a settled one.
  void expect(StageTrial& trial, double seconds) {
    trial.estimate_seconds = seconds;
    best_seconds_ = std::min(best_seconds_, seconds);
  }

  Status try_schedule(JointLine& line, const StageChoice& choice, PipelineSchedule schedule, const StageDevices& devices, std::vector<TriedSchedule>& tried) {
    if (schedule.shape.positions() > line.line().size()) {
      refuse(choice, "the model has " + std::to_string(line.line().size()) + " parts that could be stages");
      return Done{};
    }
    std::vector<std::int64_t> counts = by_position(schedule, devices.counts());
    FoundCut here(&line, std::move(schedule), std::move(counts), hop_seconds(choice.microbatches, devices), counted_bytes());
    std::optional<LineCut> cut = here.cut_within(kNothing);
    if (!cut) return keep(choice, std::move(here), false);
    here.cut = std::move(*cut);
    const double free_seconds = here.cut.step_seconds;
    bool may_fit = true;
    for (const TriedSchedule& other : tried) {
      if (!other.holds_no_more_than(here)) continue;
      may_fit = may_fit && other.seconds;
      // What that takes within memory is what is expected of one that is no shorter.
      if (other.seconds && other.free_seconds <= free_seconds) here.cut.step_seconds = std::max(here.cut.step_seconds, *other.seconds);
    }
    Result<bool> fits = may_fit;
    if (may_fit && here.cut.step_seconds == free_seconds && free_seconds < best_seconds_) fits = here.settle();
    if (!fits) return fits.error();
    tried.push_back({here.schedule.shape, here.schedule.positions, here.loads, free_seconds, *fits ? std::optional(here.cut.step_seconds) : std::nullopt});
    return keep(choice, std::move(here), *fits);
  }

  // A trial of which that is expected.
  Status keep(StageChoice choice, FoundCut here, bool fits) {
    StageTrial& trial = trials_.emplace_back();
    trial.choice = std::move(choice);
    trial.floor_seconds = floor_seconds(here);
    trial.state = fits ? TrialState::estimated : TrialState::unfit;
    if (!fits) {
      trial.reason = kNoSmallWay;
      return Done{};
    }
    if (here.settled) expect(trial, here.cut.step_seconds);
    else trial.estimate_seconds = here.cut.step_seconds;
    found_.emplace_back(trial.choice, std::move(here));
    return Done{};
  }

  // Of those that may be the best one the most promising that is not refined; false where there is none. Others of as many stages and microbatches make use of its ways.
  Result<bool> refine_best() {
    StageTrial* next = nullptr;
    for (StageTrial& trial : trials_) {
      if (!is_settled(trial) || found(trial.choice).refined || trial.estimate_seconds >= worth_refining(trial)) continue;
      if (next == nullptr || trial.estimate_seconds < next->estimate_seconds) next = &trial;
    }
    if (next == nullptr) return false;
    FoundCut& here = found(next->choice);
    if (Status status = here.refine(worth_refining(*next)); !status) return status.error();
    expect(*next, here.cut.step_seconds);
    refined_.insert(sizes_of(*next));
    for (StageTrial& trial : trials_) {
      if (!is_settled(trial) || found(trial.choice).refined || sizes_of(trial) != sizes_of(*next)) continue;
      FoundCut& other = found(trial.choice);
      other.cut_again();
      expect(trial, other.cut.step_seconds);
    }
    return true;
  }

  // Ways of other stages and microbatches may be worth more than those that are added to what is known already.
  [[nodiscard]] double worth_refining(const StageTrial& trial) const { return (refined_.contains(sizes_of(trial)) ? kWorthRefining : kWorthRefiningFirst) * best_seconds_; }
  [[nodiscard]] static std::pair<std::uint32_t, std::int64_t> sizes_of(const StageTrial& trial) { return {trial.choice.stages, trial.choice.microbatches}; }

  Status refine_all() {
    while (true) {
      const Result<bool> refined = refine_best();
      if (!refined) return refined.error();
      if (!*refined) return Done{};
    }
  }

  // What no step on these devices is below.
  [[nodiscard]] static double floor_seconds(const FoundCut& here) {
    const JointLine& line = *here.line;
    if (here.devices.size() == 1) return least_step_seconds(line.least(here.devices.front()), line.microbatches()) * (1 - kTicksApart);
    if (are_alike(here.devices)) return least_step_seconds(line.least(here.devices.front()), here.schedule) * (1 - kTicksApart);
    std::vector<const std::vector<LeastComputing>*> computing;
    for (const std::int64_t devices : here.devices) computing.push_back(&line.least(devices));
    return least_step_seconds(computing, here.schedule) * (1 - kTicksApart);
  }

  // Stages of unlike numbers of devices: over those numbers for which ways are known, or, where the number of stages is given, could be.
  struct Unlike {
    std::int64_t stages = 1;
    JointLine* line = nullptr;
    std::vector<DeviceRange> ranges;
    double seconds = 0;  // of all devices if each were as fast as in the quickest way
  };

  Status try_unlike_devices() {
    std::vector<Unlike> unlike;
    for (const std::int64_t stages : request_.unlike_stages) {
      if (stages < 2 || stages > std::ssize(model_.units.units)) continue;
      const std::vector<DeviceRange> ranges = unlike_ranges(request_.cluster, request_.stages, stages);
      for (const std::int64_t microbatches : request_.microbatches) {
        Result<std::optional<Unlike>> made = unlike_of(stages, microbatches, ranges);
        if (!made) return made.error();
        if (*made) unlike.push_back(std::move(**made));
      }
    }
    std::ranges::stable_sort(unlike, {}, &Unlike::seconds);
    for (const Unlike& each : unlike) {
      if (best_seconds_ <= each.seconds) continue;
      if (Status status = try_unlike(each); !status) return status;
    }
    return Done{};
  }

  // Where that is all that a device has, communicators take some of it, of which the budget knows nothing.
  [[nodiscard]] double counted_bytes() const {
    const bool is_all = request_.budget_bytes == largest_peak_bytes(request_.cluster);
    const std::int64_t communicators = is_all ? kUsualCommunicators * request_.cluster.device.overheads.communicator_bytes : 0;
    return kCountedOn * static_cast<double>(std::max(request_.budget_bytes - communicators, request_.budget_bytes / 2));
  }
  [[nodiscard]] bool is_given() const { return request_.stages.size() == 1; }

  Result<std::optional<Unlike>> unlike_of(std::int64_t stages, std::int64_t microbatches, const std::vector<DeviceRange>& ranges) {
    if (!is_given() && !lines_.contains(microbatches)) return std::optional<Unlike>();
    const Result<JointLine*> line = line_of(microbatches);
    if (!line) return line.error().code == ErrorCode::bad_input ? std::optional<Unlike>() : Result<std::optional<Unlike>>(line.error());
    Unlike made{stages, *line, {}, kNothing};
    std::set<std::int64_t> numbers;
    for (const DeviceRange& range : ranges) {
      if (is_given()) {
        if (Status status = made.line->add_devices(cluster_part(request_.cluster, range.count).value(), lines_); !status && status.error().code != ErrorCode::bad_input) return status.error();
      }
      if (!made.line->has(range.count)) continue;
      made.ranges.push_back(range);
      numbers.insert(range.count);
      const double busy = static_cast<double>(range.count) * made.line->fastest_seconds(range.count) / static_cast<double>(request_.cluster.devices());
      made.seconds = std::min(made.seconds, static_cast<double>(microbatches) * busy * (1 + least_waits(stages, microbatches)));
    }
    return numbers.size() < 2 ? std::optional<Unlike>() : std::optional(std::move(made));
  }

  Status try_unlike(const Unlike& unlike) {
    std::vector<PipelineSchedule> seen;
    for (const std::string& id : request_.schedules) {
      StageChoice choice{static_cast<std::uint32_t>(unlike.stages), id, unlike.line->microbatches(), request_.chunks};
      Result<PipelineSchedule> schedule = request_.schedule(choice);
      if (!schedule && schedule.error().code != ErrorCode::bad_input) return schedule.error();
      if (!schedule || !is_plain(*schedule) || std::ranges::find(seen, *schedule) != seen.end()) continue;
      seen.push_back(*schedule);
      if (Status status = try_unlike_schedule(unlike, choice, *schedule); !status) return status;
    }
    return Done{};
  }

  Status try_unlike_schedule(const Unlike& unlike, const StageChoice& choice, const PipelineSchedule& schedule) {
    const std::optional<LineShape> shape = unlike.line->line().cut_freely(schedule, unlike.ranges, request_.cluster.devices(), counted_bytes(), best_seconds_);
    if (!shape) return Done{};
    std::vector<std::vector<std::int64_t>> lists;
    if (is_given() && is_small()) lists = device_lists(unlike.ranges, unlike.stages, request_.cluster.devices(), kMostDeviceLists + 1);
    if (lists.empty() || lists.size() > kMostDeviceLists) lists = {shape->devices};
    for (const std::vector<std::int64_t>& devices : lists) {
      if (are_alike(devices)) continue;
      if (Status status = try_devices(unlike, choice, schedule, devices); !status) return status;
    }
    return Done{};
  }

  Status try_devices(const Unlike& unlike, StageChoice choice, const PipelineSchedule& schedule, const std::vector<std::int64_t>& counts) {
    const Result<StageDevices> devices = StageDevices::make(request_.cluster, counts);
    if (!devices) return devices.error();
    FoundCut here(unlike.line, schedule, counts, hop_seconds(choice.microbatches, *devices), counted_bytes());
    choice.devices = counts;
    const Result<bool> fits = here.settle();
    if (!fits) return fits.error();
    return keep(std::move(choice), std::move(here), *fits);
  }

  [[nodiscard]] StageCutWish wish_of(const FoundCut& here) const {
    const ModelUnits& units = model_.units;
    StageCutWish wish;
    wish.stage_of.assign(units.bound.size(), 0);
    std::size_t unit = 0;
    for (std::uint32_t position = 0; position < here.cut.stages.size(); ++position) {
      for (; unit < here.cut.shape.ends[position]; ++unit) {
        for (NodeId id = units.units[unit].begin; id < units.units[unit].end; ++id) {
          if (units.bound[id]) wish.stage_of[id] = position;
        }
      }
      wish.stages.push_back(here.line->wish(here.cut.stages[position]));
    }
    if (!are_alike(here.devices)) wish.devices = here.devices;
    return wish;
  }

  // With what plans say; nothing where that is the wish of before.
  [[nodiscard]] std::optional<StageCutWish> wish_again(FoundCut& here, const StageCutWish& before) const {
    std::optional<LineCut> cut = here.units().cut(here.schedule, here.devices, here.bytes, here.hop_seconds);
    if (!cut) return std::nullopt;
    here.cut = here.moved(std::move(*cut));
    StageCutWish wish = wish_of(here);
    return wish == before ? std::nullopt : std::optional(std::move(wish));
  }

  void say_what_is_left_out() {
    if (hopeless_ > 0) {
      left_out_.push_back(std::to_string(hopeless_) + " pairs of a number of stages and of microbatches for which devices, each as fast as one alone or as in fewer microbatches, would take longer than what is expected of the best");
    }
    if (std::ranges::any_of(lines_, [](const auto& line) { return line.second != nullptr && line.second->has_far_meshes(); })) {
      left_out_.emplace_back("where something fits, meshes on which fewer microbatches take far longer than on the fastest one");
    }
    if (request_.mesh.empty() && !is_small()) left_out_.emplace_back("meshes of three axes whose first one shards anything but the batch");
    if (request_.mesh.empty()) left_out_.emplace_back("ways that hold less, on meshes that at the same price of memory take longer than the best one");
    if (!request_.unlike_stages.empty()) {
      const auto [least, most] = std::ranges::minmax(request_.unlike_stages);
      const std::string numbers = least == most ? std::to_string(most) : std::to_string(least) + " to " + std::to_string(most);
      left_out_.push_back("stages of unlike numbers of devices, but the best of " + numbers + " by an estimate, with half as many to twice as many as in the mean, one chunk each, and their order that of the devices");
    } else {
      left_out_.emplace_back("numbers of stages that do not divide the devices, and stages of unlike numbers of devices");
    }
    left_out_.emplace_back("cuts inside of the " + std::to_string(model_.units.units.size()) + " parts of the model at whose ends least crosses");
  }

  const JointStagesRequest request_;
  const PlanningContext& context_;
  JointModel model_;
  double seconds_ = 0;  // of a step on one device
  double best_seconds_ = kNothing;
  std::size_t hopeless_ = 0;
  JointLines lines_;
  std::vector<StageTrial> trials_;
  std::vector<std::pair<StageChoice, FoundCut>> found_;
  std::vector<std::string> left_out_;
  std::set<std::pair<std::uint32_t, std::int64_t>> refined_;  // stages and microbatches
};

JointStages::JointStages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JointStages::JointStages(JointStages&&) noexcept = default;
JointStages::~JointStages() = default;

Result<JointStages> JointStages::make(const JointStagesRequest& request) {
  auto impl = std::make_unique<Impl>(request);
  if (Status status = impl->read(); !status) return status.error();
  return JointStages(std::move(impl));
}

Result<std::vector<StageTrial>> JointStages::search() { return impl_->search(); }
bool JointStages::is_small() const { return impl_->is_small(); }
Status JointStages::settle(StageTrial& trial, double worth_seconds) { return impl_->settle(trial, worth_seconds); }
const std::vector<std::string>& JointStages::left_out() const { return impl_->left_out(); }
StageCutWish JointStages::wish(const StageChoice& choice) const { return impl_->wish(choice); }
std::optional<StageCutWish> JointStages::wish_after(const StageChoice& choice, const std::vector<double>& busy_seconds) { return impl_->wish_after(choice, busy_seconds); }
Result<std::optional<StageCutWish>> JointStages::smaller_wish(const StageChoice& choice) { return impl_->smaller_wish(choice); }

}  // namespace meshwright
