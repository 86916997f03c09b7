#include "process_runtime.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "carrier.h"
#include "execution.h"
#include "transfer.h"
#include "letters.h"

namespace meshwright {

namespace {

// By instruction of one stage's program.
using TransferPlans = std::map<const Instruction*, TransferPlan>;

// Carries values of one stage from and to this process.
class MessageCarrier final : public Carrier {
 public:
  MessageCarrier(World& world, const TransferPlans& plans, Letters& letters, SideStream& side) : world_(world), plans_(plans), letters_(letters), side_(side) {}

  Result<bool> move(std::int64_t rank, std::size_t step, const Instruction& instruction, const Tensor& source, Tensor& result) override {
    const Result<SideStream::Task> task = begin_move(rank, step, instruction, source, result);
    if (!task) return task.error();
    return until([&] { return (*task)(); });
  }

  Status send(std::int64_t, std::int64_t microbatch, const Message& message, const ShardedType&, const Tensor& part) override { return letters_.send(message, microbatch, part); }

  Result<bool> receive(std::int64_t, std::size_t, std::int64_t microbatch, const Message& message, const ShardedType&, Tensor& result) override {
    Letters::Arriving arriving = letters_.receive(message, microbatch, result);
    return until([&]() -> Result<bool> { return arriving.advance(); });
  }

  SideStream* side(std::int64_t) override { return &side_; }

  Status progress(std::int64_t) override { return progress(); }

  Status wait_until(std::int64_t, const std::function<bool()>& is_so) override {
    const Result<bool> done = until([&]() -> Result<bool> { return is_so(); });
    return done ? Status(Done{}) : done.error();
  }

  Result<SideStream::Task> begin_move(std::int64_t, std::size_t, const Instruction& instruction, const Tensor& source, Tensor& result) override {
    const SideStream::Task done = []() -> Result<bool> { return true; };
    const TransferPlan& plan = plans_.at(&instruction);
    if (source.bytes().empty()) return done;
    if (!plan.needs_others()) {
      plan.move_here(source, result);
      return done;
    }
    return SideStream::Task([this, transfer = std::make_shared<Transfer>(plan, world_, source, result)]() -> Result<bool> {
      if (!transfer->advance()) return false;
      fetched_bytes_ += transfer->received_bytes();
      return true;
    });
  }

  // Waits, while all else that is under way goes on.
  template <class Done>
  Result<bool> until(Done is_done) {
    Patience patience;
    while (true) {
      Result<bool> done = is_done();
      if (!done || *done) return done;
      if (Status status = progress(); !status) return status.error();
      patience.pause();
    }
  }

  [[nodiscard]] std::int64_t fetched_bytes() const { return fetched_bytes_; }

 private:
  Status progress() {
    letters_.advance();
    return side_.advance();
  }

  World& world_;
  const TransferPlans& plans_;
  Letters& letters_;
  SideStream& side_;
  std::int64_t fetched_bytes_ = 0;
};

std::string header_of(const Tensor& tensor) {
  std::ostringstream text;
  text << static_cast<int>(tensor.type().dtype) << ' ' << tensor.shape().size();
  for (const std::int64_t size : tensor.shape()) text << ' ' << size;
  text << ' ' << tensor.bytes().size();
  return text.str();
}

// Not the tensor's elements.
Tensor tensor_of(const std::string& header) {
  std::istringstream text(header);
  int dtype = 0;
  std::size_t rank = 0, bytes = 0;
  text >> dtype >> rank;
  std::vector<std::int64_t> shape(rank);
  for (std::int64_t& size : shape) text >> size;
  text >> bytes;
  if (bytes == 0 && rank == 0) return {};
  return Tensor::uncleared({static_cast<DType>(dtype), std::move(shape)});
}

class ProcessRuntime final : public Runtime {
 public:
  explicit ProcessRuntime(World& world) : world_(world), letters_(world) {}

  void place(DeviceGroup& group) override {
    const std::int64_t rank = world_.rank() - group.first;
    if (rank < 0 || rank >= group.devices) return;
    group.first_here = rank;
    group.here.resize(1);
    comm_of(group);
  }

  PartsOfAll parts_of_all(const DeviceGroup& group) override {
    if (group.here.empty()) return {};
    return [this, comm = comm_of(group), self = static_cast<int>(group.first_here), devices = static_cast<int>(group.devices)](const Tensor& own) -> Result<std::vector<Tensor>> {
      std::vector<Tensor> parts;
      for (int rank = 0; rank < devices; ++rank) {
        Tensor& part = parts.emplace_back(rank == self ? own : Tensor::uncleared(own.type()));
        if (devices > 1) world_.broadcast(part.bytes(), rank, comm);
      }
      return parts;
    };
  }

  Result<Report> run(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers) override {
    if (Status status = plan(stages); !status) return status.error();
    SideStream side;
    std::map<std::size_t, MessageCarrier> carriers;  // by stage that is here
    for (const auto& [stage, plans] : plans_) carriers.try_emplace(stage, world_, plans, letters_, side);
    Turn at{0, carriers.begin()->first, 0};
    try {
      const Status done = execute_all(stages, inputs, observers, carriers, side, at);
      if (!done) world_.end_all(in_place(stages, at, done.error()));
    } catch (const std::exception& problem) {
      world_.end_all(in_place(stages, at, internal_error(problem.what())));
    }
    return report(stages, carriers);
  }

  Result<Tensor> told(const DeviceGroup& group, Result<Tensor> found) override {
    const int root = static_cast<int>(group.first);
    const bool tells = world_.rank() == root;
    // Errors are those of the question, and so alike on all processes that have the ranks.
    if (Status status = world_.agree(found ? Status(Done{}) : Status(found.error())); !status) return status.error();
    std::string header = tells ? header_of(*found) : "";
    world_.broadcast(header, root);
    Tensor tensor = tells ? std::move(*found) : tensor_of(header);
    world_.broadcast(tensor.bytes(), root, MPI_COMM_WORLD);
    return tensor;
  }

  std::int64_t largest(std::int64_t number) override { return world_.largest(number); }

 private:
  MPI_Comm comm_of(const DeviceGroup& group) {
    std::vector<int> processes;
    for (std::int64_t rank = 0; rank < group.devices; ++rank) processes.push_back(static_cast<int>(group.first + rank));
    return processes.size() > 1 ? world_.group(processes, Stream::compute) : MPI_COMM_NULL;
  }

  // Once, before the first step.
  Status plan(const Stages& stages) {
    if (!plans_.empty()) return Done{};
    Status status = letters_.plan(stages);
    for (std::size_t s = 0; status && s < stages.ranks.size(); ++s) {
      const DeviceGroup& group = stages.groups[stages.group_of[s]];
      if (!stages.ranks[s].has_ranks()) continue;
      TransferPlans& plans = plans_[s];
      for (const Instruction& instruction : stages.ranks[s].program().instructions) {
        if (instruction.kind() != InstructionKind::move) continue;
        Result<TransferPlan> plan = TransferPlan::make(stages.ranks[s].program(), instruction, group.first_here, group.first, world_);
        if (!plan) {
          status = plan.error();
          break;
        }
        plans.emplace(&instruction, std::move(*plan));
      }
    }
    return world_.agree(status);
  }

  // `at`: what is being done.
  Status execute_all(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs, const std::vector<RunObserver*>& observers, std::map<std::size_t, MessageCarrier>& carriers, SideStream& side,
                     Turn& at) {
    const auto rank_of = [&](std::size_t stage) -> Rank& { return stages.ranks[stage].rank(stages.groups[stages.group_of[stage]].first_here); };
    for (auto& [stage, carrier] : carriers) {
      if (Status status = rank_of(stage).begin(inputs[stage], carrier, observers[stage]); !status) return status;
    }
    for (const Turn& turn : turns_of(stages, stages.group_of[at.stage])) {
      at = turn;
      const Result<bool> done = rank_of(turn.stage).execute(turn.index);
      if (!done) return done.error();
    }
    const Result<bool> done = carriers.begin()->second.until([&]() -> Result<bool> { return letters_.advance() && side.is_empty(); });
    if (!done) return done.error();
    for (const auto& [stage, carrier] : carriers) {
      at = {0, stage, stages.ranks[stage].steps().size()};
      if (Status status = rank_of(stage).give_outputs(); !status) return status;
    }
    return Done{};
  }

  Error in_place(const Stages& stages, const Turn& at, const Error& error) const {
    const StageRanks& stage = stages.ranks[at.stage];
    std::string where = rank_name(stages, at.stage, stages.groups[stages.group_of[at.stage]].first_here);
    if (at.index < stage.steps().size()) where += ", " + describe(stage.program(), stage.steps()[at.index]);
    return add_context(where, error);
  }

  Result<Report> report(const Stages& stages, const std::map<std::size_t, MessageCarrier>& carriers) {
    Report report;
    report.ranks = stages.devices();
    std::optional<double> loss;
    Status status = Done{};
    std::int64_t peak = 0, instruction = 0;
    for (const auto& [s, carrier] : carriers) {
      const StageRanks& stage = stages.ranks[s];
      const DeviceGroup& group = stages.groups[stages.group_of[s]];
      const Rank& rank = stage.rank(group.first_here);
      report.arena_bytes += stage.arena_bytes();
      report.bytes_sent += carrier.fetched_bytes() + rank.received_bytes();
      if (rank.peak_bytes() > peak) {
        peak = rank.peak_bytes();
        instruction = rank.peak_instruction();
      }
      report.peak_bytes = std::max({report.peak_bytes, rank.peak_bytes(), group.here.front().most});
      const Result<std::optional<double>> here = stage.loss();
      if (!here) status = here.error();
      else if (*here) loss = loss.value_or(0) + **here;
    }
    if (Status agreed = world_.agree(status); !agreed) return agreed.error();
    report.arena_bytes = world_.largest(report.arena_bytes);
    report.bytes_sent = world_.sum(report.bytes_sent);
    const std::int64_t most = world_.largest(peak);
    report.peak_bytes = world_.largest(report.peak_bytes);
    // Of the first process with the largest peak.
    const std::int64_t first = world_.smallest(peak == most ? world_.rank() : world_.size());
    report.peak_instruction = world_.largest(world_.rank() == first ? instruction : 0);
    const bool has_loss = world_.largest(loss ? 1 : 0) != 0;
    const double sum = world_.sum(loss.value_or(0));
    if (has_loss) report.loss = sum;
    return report;
  }

  World& world_;
  Letters letters_;
  std::map<std::size_t, TransferPlans> plans_;  // by stage that is here
};

}  // namespace

std::unique_ptr<Runtime> make_process_runtime(World& world) { return std::make_unique<ProcessRuntime>(world); }

}  // namespace meshwright
