#include "run_ranks.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "execution.h"
#include "meeting.h"
#include "post.h"
#include "runtime.h"
#include "transport.h"

namespace meshwright {

namespace {

// Behind all that a step does.
constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max() - 1;

// Values move in memory that the ranks share.
class MemoryCarrier final : public Carrier {
 public:
  MemoryCarrier(const Program& program, Meeting& meeting, Post& post, const RunOptions& options, AmongRanks among)
      : transport_(program, meeting, options.scatter_partials, among), meeting_(meeting), post_(post), among_(std::move(among)), late_(options.communicates_late ? static_cast<std::size_t>(program.mesh.devices()) : 0) {}

  Result<bool> move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) override { return transport_.move(rank, step, instruction, source, result); }
  Status send(std::int64_t rank, std::int64_t microbatch, const Message& message, const ShardedType& type, const Tensor& part) override {
    post_.send(message, microbatch, rank, type, part);
    return Done{};
  }
  Result<bool> receive(std::int64_t rank, std::size_t step, std::int64_t microbatch, const Message& message, const ShardedType& type, Tensor& result) override {
    return post_.receive(message, microbatch, rank, type, among_.first + rank, {among_.steps[step], 0, {among_.first + rank}}, result);
  }
  // A rank that has failed at the end of the step, beside this one, counts too.
  [[nodiscard]] bool goes_on() const override { return meeting_.goes_on(kEnd + 1); }
  // All ranks wait for the same in the program's order, so that they meet as they do without.
  SideStream* side(std::int64_t rank) override { return late_.empty() ? nullptr : &late_[static_cast<std::size_t>(rank)]; }
  Status progress(std::int64_t rank) override {
    return wait_until(rank, [&] { return late_.empty() || !side(rank)->has_for_others(); });
  }
  Status wait_until(std::int64_t rank, const std::function<bool()>& is_so) override {
    while (!is_so()) {
      if (Status status = late_[static_cast<std::size_t>(rank)].advance(); !status) return status;
    }
    return Done{};
  }
  // The move is done the second time that it is asked for, so that no more of the stream is done than must be.
  Result<SideStream::Task> begin_move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) override {
    return SideStream::Task([this, rank, step, &instruction, &source, &result, is_asked = false]() mutable -> Result<bool> {
      if (!std::exchange(is_asked, true)) return false;
      const Result<bool> met = transport_.move(rank, step, instruction, source, result);
      if (met && !*met) return internal_error("the run has stopped");
      return met;
    });
  }
  [[nodiscard]] std::int64_t fetched_bytes(std::int64_t rank) const { return transport_.fetched_bytes(rank); }

 private:
  Transport transport_;
  Meeting& meeting_;
  Post& post_;
  const AmongRanks among_;
  std::vector<SideStream> late_;  // by rank; none: nothing is done late
};

// All devices of one step, each a thread; the first is the caller's.
class Run {
 public:
  // `inputs` and `observers` by stage.
  Run(Stages& stages, const RunOptions& options, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers)
      : stages_(stages),
        options_(options),
        meeting_(stages.devices(), [this](std::size_t place) { return described(place); }),
        post_(stages.programs(), meeting_) {
    for (std::size_t s = 0; s < stages_.ranks.size(); ++s) {
      const std::int64_t first = stages_.groups[stages_.group_of[s]].first;
      parts_.emplace_back(stages_.ranks[s], s, first, stages_.order[s], inputs[s], observers[s], MemoryCarrier(stages_.ranks[s].program(), meeting_, post_, options, {first, stages_.order[s]}));
    }
    for (std::size_t g = 0; g < stages_.groups.size(); ++g) {
      const auto stage = static_cast<std::size_t>(std::ranges::find(stages_.group_of, g) - stages_.group_of.begin());
      lanes_.push_back({stages_.groups[g].first, stages_.groups[g].devices, stage, turns_of(stages_, g)});
    }
  }

  Result<Report> run() {
    std::vector<std::thread> threads;
    for (const Lane& lane : lanes_) {
      for (std::int64_t rank = 0; rank < lane.devices; ++rank) {
        if (lane.first_rank + rank == 0) continue;
        try {
          threads.emplace_back([this, &lane, rank] { follow(lane, rank); });
        } catch (const std::exception& problem) {
          meeting_.fail(lane.first_rank + rank, 0, internal_error(rank_name(stages_, lane.first_stage, rank) + " can't start: " + problem.what()));
          meeting_.leave(lane.first_rank + rank);
        }
      }
    }
    follow(lanes_.front(), 0);
    for (std::thread& thread : threads) thread.join();
    if (const std::optional<Error> failure = meeting_.failure()) return *failure;
    return report();
  }

 private:
  // One stage's part of the step.
  struct Part {
    Part(StageRanks& of, std::size_t at, std::int64_t first, const std::vector<std::size_t>& order, const std::vector<const Tensor*>& given, RunObserver* looks, MemoryCarrier carries)
        : stage(of), number(at), first_rank(first), places(order), inputs(given), observer(looks), carrier(std::move(carries)) {}

    StageRanks& stage;
    std::size_t number = 0;
    std::int64_t first_rank = 0;             // among all that meet
    const std::vector<std::size_t>& places;  // by what the stage does
    const std::vector<const Tensor*>& inputs;
    RunObserver* observer = nullptr;
    MemoryCarrier carrier;

    [[nodiscard]] std::size_t place(std::size_t index) const { return index < places.size() ? places[index] : kEnd; }
  };

  // The devices of a group: what they run, in turn.
  struct Lane {
    std::int64_t first_rank = 0, devices = 0;
    std::size_t first_stage = 0;
    std::vector<Turn> turns;
  };

  // An occurrence by its place in the order of all.
  [[nodiscard]] std::string described(std::size_t place) const {
    for (const Part& part : parts_) {
      const auto found = std::ranges::lower_bound(part.places, place);
      if (found == part.places.end() || *found != place) continue;
      const std::string where = parts_.size() > 1 ? "stage " + std::to_string(part.number) + ", " : "";
      return where + describe(part.stage.program(), part.stage.steps()[static_cast<std::size_t>(found - part.places.begin())]);
    }
    return "the end of the step";
  }

  // What a device does.
  void follow(const Lane& lane, std::int64_t rank) {
    Turn at{0, lane.first_stage, 0};
    try {
      const Result<bool> done = execute_all(lane, rank, at);
      if (!done) fail(parts_[at.stage], rank, at.index, done.error());
    } catch (const std::exception& problem) {
      fail(parts_[at.stage], rank, at.index, internal_error(problem.what()));
    }
    meeting_.leave(lane.first_rank + rank);
  }

  // `at`: what is being done.
  Result<bool> execute_all(const Lane& lane, std::int64_t rank, Turn& at) {
    std::vector<Part*> parts;
    for (Part& part : parts_) {
      if (part.first_rank == lane.first_rank) parts.push_back(&part);
    }
    for (Part* part : parts) {
      if (Status status = part->stage.rank(rank).begin(part->inputs, part->carrier, part->observer); !status) return status.error();
    }
    const bool all = options_.instructions.empty();
    const std::vector<std::size_t> chosen = all ? std::vector<std::size_t>{} : options_.instructions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < (all ? lane.turns.size() : chosen.size()); ++i) {
      at = all ? lane.turns[i] : Turn{0, 0, chosen[i]};
      Part& part = parts_[at.stage];
      if (!meeting_.goes_on(part.place(at.index))) return false;
      const Result<bool> done = part.stage.rank(rank).execute(at.index);
      if (!done || !*done) return done;
    }
    for (Part* part : parts) {
      const SideStream* late = part->carrier.side(rank);
      const Status done = part->carrier.wait_until(rank, [&] { return late == nullptr || late->is_empty(); });
      if (!done) return done.error();
    }
    for (Part* part : parts) {
      at = {0, part->number, part->stage.steps().size()};
      if (!meeting_.goes_on(part->place(at.index))) return false;
      const Result<bool> finished = part->stage.rank(rank).finish();
      if (!finished || !*finished) return finished;
      if (const Status status = part->stage.rank(rank).give_outputs(); !status) return status.error();
    }
    return true;
  }

  void fail(const Part& part, std::int64_t rank, std::size_t index, const Error& error) {
    const std::vector<Occurrence>& steps = part.stage.steps();
    std::string where = rank_name(stages_, part.number, rank);
    if (index < steps.size()) where += ", " + describe(part.stage.program(), steps[index]);
    meeting_.fail(part.first_rank + rank, part.place(index), add_context(where, error));
  }

  Result<Report> report() const {
    Report report;
    report.ranks = stages_.devices();
    std::vector<std::int64_t> arenas(stages_.groups.size(), 0);
    for (const Part& part : parts_) {
      arenas[stages_.group_of[part.number]] += part.stage.arena_bytes();
      for (std::int64_t rank = 0; rank < part.stage.program().mesh.devices(); ++rank) {
        const Rank& execution = part.stage.rank(rank);
        report.bytes_sent += part.carrier.fetched_bytes(rank) + execution.received_bytes();
        if (execution.peak_bytes() <= report.peak_bytes) continue;
        report.peak_bytes = execution.peak_bytes();
        report.peak_instruction = execution.peak_instruction();
      }
      const Result<std::optional<double>> loss = part.stage.loss();
      if (!loss) return loss.error();
      if (*loss) report.loss = report.loss.value_or(0) + **loss;
    }
    report.arena_bytes = std::ranges::max(arenas);
    for (const DeviceGroup& group : stages_.groups) {
      for (const DeviceBytes& device : group.here) report.peak_bytes = std::max(report.peak_bytes, device.most);
    }
    return report;
  }

  Stages& stages_;  // until all have left, since a rank reads what others hold
  const RunOptions& options_;
  Meeting meeting_;
  Post post_;
  std::deque<Part> parts_;  // by stage
  std::deque<Lane> lanes_;  // by group
};

// All ranks are threads of this process.
class Threads final : public Runtime {
 public:
  explicit Threads(RunOptions options) : options_(std::move(options)) {}

  void place(DeviceGroup& group) override { group.here.resize(static_cast<std::size_t>(group.devices)); }
  PartsOfAll parts_of_all(const DeviceGroup&) override { return {}; }
  [[nodiscard]] MakeRank make_rank() const override { return options_.make_rank; }
  Result<Report> run(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers) override { return Run(stages, options_, inputs, observers).run(); }
  Result<Tensor> told(const DeviceGroup&, Result<Tensor> found) override { return found; }
  std::int64_t largest(std::int64_t number) override { return number; }

 private:
  const RunOptions options_;
};

}  // namespace

std::unique_ptr<Executable> compile_ranks(const BackendInput& input, const RunOptions& options) { return compile_on(std::make_unique<Threads>(options), input); }

Result<std::unique_ptr<StagesExecutable>> compile_stage_ranks(const std::vector<BackendInput>& stages, const GroupOrders& orders, const RunOptions& options) {
  return compile_on(std::make_unique<Threads>(options), stages, orders);
}

}  // namespace meshwright
