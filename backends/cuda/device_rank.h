// A rank whose values lie on a GPU: asks its device for what its step says, and waits at the end of the step alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "devices.h"
#include "kernels/optimizers.h"
#include "rank.h"

namespace meshwright::cuda {

// Whether a graph can do what a step does.
bool can_be_captured(const RankStep& step, const Driver& driver);

class DeviceRank final : public Rank {
 public:
  // `devices` has the memory of the rank's seat, at which `step` was built, and outlives this.
  DeviceRank(const RankInput& input, Devices& devices, std::int64_t seat, RankStep step);

  Status load(const std::vector<const Tensor*>& parameters, const std::vector<const OptimizerState*>& states) override;
  Status begin(const std::vector<const Tensor*>& inputs, Carrier& carrier, RunObserver* observer) override;
  Result<bool> execute(std::size_t step) override;
  Result<bool> finish() override;
  Status give_outputs() override;
  Status end() override;

  [[nodiscard]] Result<Tensor> part(ProgramValueId id, std::int64_t microbatch) const override;
  [[nodiscard]] Result<OptimizerState> state(std::size_t parameter) const override;
  [[nodiscard]] Result<std::optional<Tensor>> master(std::size_t parameter) const override;

  [[nodiscard]] std::int64_t received_bytes() const override { return step_.received_bytes; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return step_.peak_bytes; }
  [[nodiscard]] std::int64_t peak_instruction() const override { return step_.peak_instruction; }

 private:
  [[nodiscard]] Status of_rank(const Status& status) const;
  Status set_device() const;
  Status load_all(const std::vector<const Tensor*>& parameters, const std::vector<const OptimizerState*>& states);
  void fail();                              // the step: others find out that the run has stopped
  [[nodiscard]] std::string where() const;  // in a step; on any thread
  Status put_inputs(const std::vector<const Tensor*>& inputs);
  Status close();
  Status issue(const Command& command) const;
  Status issue(const Launch& launch, Stream stream) const;
  Status issue(const Product& product, Stream stream) const;
  Status issue(const DnnCall& call, Stream stream) const;
  Status issue(const Collective& collective, Stream stream) const;
  Status issue(const Exchange& exchange, Stream stream) const;
  // Of the optimizer's next step.
  Status put_numbers();
  Status begin_capture();
  Status end_capture();
  Status replay();
  [[nodiscard]] bool is_replayed() const;
  [[nodiscard]] std::vector<StreamNumber> other_streams() const;
  Status observe_update(const Optimize& update);
  [[nodiscard]] Communicator communicator(const GroupKey& group) const {
    return devices_.of(seat_).communicators.at(group);
  }

  // This rank's part of a whole tensor, as numbers of `dtype`.
  [[nodiscard]] Tensor part_of(const Tensor& whole, ShardedType type, DType dtype) const;
  // A part of a whole tensor goes to the device. It stays in `staged_` until it is there.
  Status put(Tensor part, std::byte* to);
  // As it is handed over: of half precision as float32.
  [[nodiscard]] Result<Tensor> fetch(const std::byte* from, const TensorType& type) const;
  [[nodiscard]] Result<Tensor> fetch(const Handed& handed) const;
  // Until a stream is done; false: the run has stopped meanwhile. Errors: of a communicator, and of what ran.
  Result<bool> wait_for(Stream stream) const;
  Status settle() const;  // the same of the compute stream, where no other rank is needed
  Status check_faults() const;

  const Program& program_;
  const std::vector<Occurrence>& steps_;
  const Arena& arena_;
  const OptimizerSettings& settings_;
  Devices& devices_;
  Driver& driver_;
  DeviceBytes& bytes_;
  const std::int64_t rank_, seat_;
  const std::vector<std::int64_t> coordinates_;
  const RankStep step_;
  const bool captures_;         // steps become a graph
  Carrier* carrier_ = nullptr;  // of the step that runs
  RunObserver* observer_ = nullptr;
  std::vector<std::int64_t> taken_steps_;  // by parameter
  std::vector<OptimizerNumbers> numbers_;  // likewise; they go to the device before each step
  bool has_begun_ = false, is_capturing_ = false;
  std::vector<Tensor> staged_;
  std::atomic<std::size_t> at_ = 0;       // of the steps that are issued; behind the last one: all are
  std::optional<Watchdog::Watch> watch_;  // of the step that runs
};

}  // namespace meshwright::cuda
