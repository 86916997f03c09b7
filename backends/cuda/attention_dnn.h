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
  // Operands lie row by row; `reads`: where.
  AttentionDnn(OpWriter& writer, const AttentionArguments& arguments, std::vector<Range> reads)
      : writer_(writer), arguments_(arguments), reads_(std::move(reads)) {}

  // False: the library does not take it, and nothing is written. Errors: the driver's.
  Result<bool> write(const Seen& result);
  // Of query, key and value; null: not asked for. The statistics of the scores are not kept from the forward: attention
  // runs again for them.
  Result<bool> write_gradients(const Seen* const (&gradients)[3]);

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
  // Without tensors; nothing: no library has a plan.
  Result<std::optional<DnnCall>> planned(std::optional<DnnGraph> graph) const;
  // The first tensors of both directions.
  void give_operands(DnnCall& call, const std::optional<Added>& added, std::byte* output, std::byte* statistics) const;
  // What the library keeps no room for: kernels of this backend have it in the call's workspace, the first or the
  // second half of it.
  static Range between(const DnnCall& call, std::size_t part, std::size_t parts) {
    const std::size_t bytes = call.graph->kernel_bytes / parts;
    return {call.workspace + part * bytes, bytes};
  }

  OpWriter& writer_;
  const AttentionArguments arguments_;
  const std::vector<Range> reads_;
};

}  // namespace meshwright::cuda
