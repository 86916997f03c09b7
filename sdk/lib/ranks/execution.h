// One rank's part of a program.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/backend.h"
#include "transport.h"

namespace meshwright {

// "instruction 12 (all_gather along axis 1 of 'h')"
std::string describe(const Program& program, std::size_t index);

// What a rank holds of a whole tensor; zeros where it is padded, and where another rank holds a partial sum.
Tensor cut(const Tensor& whole, const ShardedType& type, const Mesh& mesh,
           const std::vector<std::int64_t>& coordinates);

// One rank: its values, and how many bytes they take. Used by one thread at a time.
class Execution {
 public:
  // `sources` are the whole tensors of the parameters, then of the inputs.
  Execution(const BackendInput& input, const std::vector<const Tensor*>& sources, std::int64_t rank,
            Transport& transport);

  // Takes its parts of parameters and inputs.
  void load();
  // False: the run has stopped.
  Result<bool> execute(std::size_t index);
  // Hands the outputs to the observer.
  Status give_outputs() const;

  [[nodiscard]] std::int64_t peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] std::int64_t peak_instruction() const { return peak_instruction_; }

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
    explicit Reading(std::shared_ptr<const Tensor> tensor) : tensor_(std::move(tensor)) {}
    const Tensor& operator*() const { return *tensor_; }
    const Tensor* operator->() const { return tensor_.get(); }

   private:
    std::shared_ptr<const Tensor> tensor_;
  };

  Result<const Held*> held(ProgramValueId id) const;
  Result<Reading> read(ProgramValueId id) const;
  Result<std::vector<Tensor>> call(const Instruction& instruction, const std::vector<const Tensor*>& operands) const;
  void keep(ProgramValueId id, Tensor tensor, std::size_t index);
  void count(std::int64_t bytes, std::size_t index);
  Status drop(const Instruction& instruction);
  Status make_views(const Instruction& instruction, std::size_t index);
  Status compute_op(const Instruction& instruction, std::size_t index);
  Result<bool> move(const Instruction& instruction, std::size_t index);
  Status accumulate(const Instruction& instruction);
  Status update(const Instruction& instruction);

  const BackendInput& input_;
  const Program& program_;
  const std::vector<const Tensor*>& sources_;
  std::int64_t rank_;
  std::vector<std::int64_t> coordinates_;
  Transport& transport_;
  std::vector<Held> values_;
  std::int64_t held_bytes_ = 0, peak_bytes_ = 0, peak_instruction_ = 0;
};

}  // namespace meshwright
