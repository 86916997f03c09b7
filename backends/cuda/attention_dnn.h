// Attention by cuDNN, whose kernels keep no score in memory. A mask becomes numbers in scratch that it adds to scores;
// what it makes of queries that see no key is corrected behind it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "dnn_attention.h"
#include "kernels/attention.h"
#include "op_writer.h"

namespace meshwright::cuda {

class AttentionDnn {
 public:
  // Sizes and the mask are in the arguments. Operands are taken as they lie where cuDNN can, and copied else.
  AttentionDnn(OpWriter& writer, const AttentionArguments& arguments) : writer_(writer), arguments_(arguments) {}

  // False: the library does not take it, and nothing is written. The results that it makes lie as the operands do that
  // they belong to. Errors: the driver's.
  Result<bool> write();
  // Of query, key and value. Where the statistics of the scores were not kept beside the output (Keeper), attention
  // runs again for them.
  // `gradients`: null: not asked for.
  Result<bool> write_gradients(Seen* const (&gradients)[3]);

 private:
  // The bias, and which of its rows let a query see no key: in scratch. The arguments have it in the mask's place.
  struct Added {
    Range numbers, unseen;
    AttentionArguments arguments;
  };

  [[nodiscard]] std::vector<std::int64_t> scores() const;
  // How cuDNN can be given the mask. Nothing: there is none; it is neither boolean nor of the queries' type; or it has
  // no room.
  [[nodiscard]] std::optional<AttentionBias> mask_as_bias() const;
  Result<std::optional<Added>> add_mask(const std::optional<AttentionBias>& bias);
  // Each row of what the library made for a query that sees no key becomes this number.
  void correct(const Added& added, const View& made, std::int64_t columns, double number, const Range& range);
  // The operands as the library is to see them; without memory: they have to be copied.
  Status see_operands();
  Status copy_others();
  // Without tensors; nothing: no library has a plan.
  Result<std::optional<DnnCall>> planned(std::optional<DnnGraph> graph) const;
  // The first tensors of both directions.
  void give_operands(DnnCall& call, const std::optional<Added>& added, std::byte* output,
                     const Range& statistics) const;
  // A float for each query.
  [[nodiscard]] std::size_t statistics_bytes() const {
    return static_cast<std::size_t>(arguments_.rows) * sizeof(float);
  }
  // There, or if it is null in scratch.
  Range statistics_at(std::byte* memory);
  // A number for each query and key: what the library keeps no room for, its `part`.
  [[nodiscard]] Range between(const DnnCall& call, std::size_t part) const;

  // What kernels in the library's place go over row by row: the operands, which are copied behind what is between, and
  // where a result is before it is copied to where it lies.
  struct Rows;
  struct Operand {
    const char* name;
    View AttentionArguments::*view;
  };
  static constexpr Operand kOperands[] = {{"query", &AttentionArguments::query},
                                          {"key", &AttentionArguments::key},
                                          {"value", &AttentionArguments::value},
                                          {"output", &AttentionArguments::output},
                                          {"grad_output", &AttentionArguments::gradient}};

  OpWriter& writer_;
  AttentionArguments arguments_;
  std::int64_t heads_ = 0;  // in each batch, where operands have strides
};

}  // namespace meshwright::cuda
