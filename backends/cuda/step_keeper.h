// What calls of a step keep for their gradients.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "step_builder.h"

namespace meshwright::cuda {

// For one instruction, whose results are not there before it is written. All of them outlive this.
class StepBuilder::CallKeeper final : public Keeper {
 public:
  CallKeeper(StepBuilder& builder, const Instruction& instruction, const std::vector<Seen>& operands)
      : builder_(builder), instruction_(instruction), operands_(operands) {}

  std::byte* keep(std::optional<std::size_t> operand, std::string what, std::size_t bytes) override;
  [[nodiscard]] std::byte* kept(std::size_t operand, std::string_view what) const override;
  [[nodiscard]] std::string identity(std::size_t operand) const override;
  // The results are there.
  void close();

 private:
  // Null: the call sees a copy, which is gone behind it.
  [[nodiscard]] Storage* storage_of(std::size_t operand) const;

  StepBuilder& builder_;
  const Instruction& instruction_;
  const std::vector<Seen>& operands_;
  std::vector<Beside> of_result_;
};

}  // namespace meshwright::cuda
