// One rank whose values lie in memory of this process: interprets a program on it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimizer.h"
#include "rank.h"

namespace meshwright {

// "instruction 12 (all_gather along axis 1 of 'h')"; of several microbatches with its number.
std::string describe(const Program& program, const Occurrence& at);

// What a rank holds of a whole tensor; zeros where it is padded, and where another rank holds a partial sum.
Tensor cut(const Tensor& whole, const ShardedType& type, const Mesh& mesh,
           const std::vector<std::int64_t>& coordinates);
// The other way: puts a rank's part of a value that is not partial where it belongs in the whole.
void paste(const Tensor& part, const ShardedType& type, const Mesh& mesh, const std::vector<std::int64_t>& coordinates, Tensor& whole);

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class Execution final : public Rank {
 public:
  explicit Execution(const RankInput& input);

  Status load(const std::vector<const Tensor*>& parameters, const std::vector<const OptimizerState*>& states) override;
  Status begin(const std::vector<const Tensor*>& inputs, Carrier& carrier, RunObserver* observer) override;
  Result<bool> execute(std::size_t step) override;
  Result<bool> finish() override;
  Status give_outputs() override;
  Status end() override;

  [[nodiscard]] Result<Tensor> part(ProgramValueId id, std::int64_t microbatch) const override;
  [[nodiscard]] Result<OptimizerState> state(std::size_t parameter) const override { return states_[parameter]; }

  [[nodiscard]] std::int64_t received_bytes() const override { return received_bytes_; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return peak_bytes_; }
  [[nodiscard]] std::int64_t peak_instruction() const override { return peak_instruction_; }

 private:
  // A value: a storage, and the views through which it is seen.
  struct Held {
    struct View {
      std::size_t instruction = 0;
      std::size_t result = 0;
    };
    std::shared_ptr<Tensor> storage;  // null: it is not there
    std::vector<View> views;          // each of what the one before it gives
  };

  // A value to be read: the storage itself, or what the views make of it, for as long as this lives.
  class Reading {
   public:
    Reading(std::shared_ptr<const Tensor> tensor, std::vector<std::shared_ptr<const Tensor>> behind)
        : tensor_(std::move(tensor)), behind_(std::move(behind)) {}
    const Tensor& operator*() const { return *tensor_; }
    const Tensor* operator->() const { return tensor_.get(); }

   private:
    std::shared_ptr<const Tensor> tensor_;
    std::vector<std::shared_ptr<const Tensor>> behind_;
  };

  // The value of the microbatch that runs now, or of another one.
  Held& value(ProgramValueId id) { return values_[program_.place(id, microbatch_)]; }
  Result<const Held*> held(ProgramValueId id, std::int64_t microbatch) const;
  Result<const Held*> held(ProgramValueId id) const { return held(id, microbatch_); }
  Result<Reading> read(ProgramValueId id) const { return read(id, microbatch_); }
  Result<Reading> read(ProgramValueId id, std::int64_t microbatch) const;
  // The same of a value that is there, through so many of its views.
  Result<Reading> read(const Held& value, std::size_t views) const;
  // `node` is that of the instruction, and must outlive what this gives.
  OpCall call_of(const Node& node, const Instruction& instruction) const;
  // What an op computes with; says in `call` which operands lie transposed.
  Status read_operands(const Instruction& instruction, OpCall& call, std::vector<Reading>& readings) const;
  // A value's place in the arena, as it was left.
  Tensor placed(ProgramValueId id, std::int64_t microbatch);
  void keep(ProgramValueId id, Tensor placed);
  // The same of what lies elsewhere.
  void keep_copy(ProgramValueId id, const Tensor& tensor);
  // So many bytes more are held, or less.
  void count(std::int64_t bytes);
  Status drop(const Instruction& instruction);
  Status make_views(const Instruction& instruction);
  Status compute_op(const Instruction& instruction);
  Result<bool> move(const Instruction& instruction);
  Status send(const Instruction& instruction);
  Result<bool> receive(const Instruction& instruction);
  Status accumulate(const Instruction& instruction);
  static Status add(const Tensor& addend, Tensor& sum);
  // Where the communication stream runs beside this: puts the instruction there.
  Status put_aside(const Instruction& instruction, SideStream& side);
  // Until the communication stream is done with what the instruction waits for.
  Status wait_for(const Instruction& instruction, const SideStream& side) const;
  Status take_over(const Instruction& instruction);
  Status update(const Instruction& instruction);

  const BackendInput& input_;
  const Program& program_;
  const std::vector<Occurrence>& steps_;
  const Arena& arena_;
  DeviceBytes& device_;
  std::unique_ptr<std::byte, FreeMemory> memory_;  // the arena, from `load` on
  std::int64_t rank_;
  std::vector<std::int64_t> coordinates_;
  Carrier* carrier_ = nullptr;        // of the step that runs
  RunObserver* observer_ = nullptr;
  std::vector<OptimizerState> states_;  // by parameter
  std::vector<Held> values_;  // of each microbatch
  std::size_t step_ = 0;
  std::int64_t microbatch_ = 0;
  std::int64_t held_bytes_ = 0, peak_bytes_ = 0, peak_instruction_ = 0, received_bytes_ = 0;
};

}  // namespace meshwright
