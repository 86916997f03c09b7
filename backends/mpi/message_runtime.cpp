#include "message_runtime.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "carrier.h"
#include "letters.h"
#include "process_runtime.h"
#include "transfer.h"

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

// Of one step, on this process.
class MessageCarriers final : public ProcessCarriers {
 public:
  // `plans`: by stage that is here.
  MessageCarriers(World& world, const std::map<std::size_t, TransferPlans>& plans, Letters& letters) : letters_(letters) {
    for (const auto& [stage, of_stage] : plans) carriers_.try_emplace(stage, world, of_stage, letters, side_);
  }

  Carrier& of(std::size_t stage) override { return carriers_.at(stage); }
  [[nodiscard]] std::int64_t fetched_bytes(std::size_t stage) const override { return carriers_.at(stage).fetched_bytes(); }
  Status finish() override {
    const Result<bool> done = carriers_.begin()->second.until([&]() -> Result<bool> { return letters_.advance() && side_.is_empty(); });
    return done ? Status(Done{}) : done.error();
  }

 private:
  Letters& letters_;
  SideStream side_;
  std::map<std::size_t, MessageCarrier> carriers_;  // by stage that is here
};

class MessageRuntime final : public ProcessRuntime {
 public:
  explicit MessageRuntime(World& world) : ProcessRuntime(world), world_(world), letters_(world) {}

 private:
  Status plan(const Stages& stages) override {
    if (Status status = letters_.plan(stages); !status) return status;
    for (std::size_t s = 0; s < stages.ranks.size(); ++s) {
      const DeviceGroup& group = stages.groups[stages.group_of[s]];
      if (!stages.ranks[s].has_ranks()) continue;
      TransferPlans& plans = plans_[s];
      for (const Instruction& instruction : stages.ranks[s].program().instructions) {
        if (instruction.kind() != InstructionKind::move) continue;
        Result<TransferPlan> plan = TransferPlan::make(stages.ranks[s].program(), instruction, group.first_here, group.first, world_);
        if (!plan) return plan.error();
        plans.emplace(&instruction, std::move(*plan));
      }
    }
    return Done{};
  }

  std::unique_ptr<ProcessCarriers> make_carriers() override { return std::make_unique<MessageCarriers>(world_, plans_, letters_); }

  World& world_;
  Letters letters_;
  std::map<std::size_t, TransferPlans> plans_;  // by stage that is here
};

}  // namespace

std::unique_ptr<Runtime> make_message_runtime(World& world) { return std::make_unique<MessageRuntime>(world); }

}  // namespace meshwright
