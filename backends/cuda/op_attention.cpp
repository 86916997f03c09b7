// Attention, forward and backward. The probabilities lie in scratch, where cuDNN's kernels keep a logarithm for each
// row: as float32, or as numbers of the operands' type, where a library computes the products (AttentionProducts), else
// as doubles.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attention_dnn.h"
#include "attention_mask.h"
#include "attention_products.h"
#include "kernels/attention.h"
#include "kernels/reductions.h"
#include "op_writer.h"
#include "random_stream.h"

namespace meshwright::cuda {

namespace {

class AttentionWriter {
 public:
  explicit AttentionWriter(OpWriter& writer) : writer_(writer), node_(writer.call.node) {}

  // Sizes, and what hides keys.
  Status read() {
    const std::vector<std::int64_t>&query = writer_.operand("query")->type.shape,
          &key = writer_.operand("key")->type.shape;
    arguments_.l = query[query.size() - 2];
    arguments_.d = query.back();
    arguments_.s = key[key.size() - 2];
    arguments_.e = writer_.operand("value")->type.shape.back();
    if (writer_.operand("query")->type.elements() == 0 || writer_.operand("key")->type.elements() == 0)
      return bad_input("cuda has no kernel for attention of nothing");
    arguments_.rows = writer_.operand("query")->type.elements() / arguments_.d;
    arguments_.repeats =
        arguments_.rows / arguments_.l / (writer_.operand("key")->type.elements() / arguments_.s / arguments_.d);
    arguments_.scale = node_.number("scale", 1 / std::sqrt(static_cast<double>(arguments_.d)));
    arguments_.causal = node_.boolean("is_causal", false);
    const Result<Shard> queries = shard_of(node_, "queries", arguments_.l);
    if (!queries) return queries.error();
    arguments_.queries = *queries;
    if (Status status = take_dropout(); !status) return status;
    return take_mask(query);
  }

  // All operands, row by row.
  Status read_rows() {
    const std::pair<const char*, View*> named[] = {{"query", &arguments_.query},
                                                   {"key", &arguments_.key},
                                                   {"value", &arguments_.value},
                                                   {"output", &arguments_.output},
                                                   {"grad_output", &arguments_.gradient}};
    return writer_.view_in_rows(named, reads_);
  }

  [[nodiscard]] const AttentionArguments& arguments() const { return arguments_; }
  [[nodiscard]] const std::vector<Range>& reads() const { return reads_; }

  // A number for each query and key.
  void write_between(KernelId kernel, double* AttentionArguments::*made) {
    const std::size_t bytes = static_cast<std::size_t>(arguments_.rows * arguments_.s) * sizeof(double);
    std::byte* memory = writer_.scratch(bytes);
    arguments_.*made = reinterpret_cast<double*>(memory);
    writer_.launch(kernel, arguments_, arguments_.rows, reads_, {{memory, bytes}});
    reads_.push_back({memory, bytes});
  }

  // The mask's, which is the scores', summed over what the mask is repeated for.
  Status write_mask_gradient(const Seen& result) {
    if (!is_floating(result.type.dtype)) return bad_input("cuda has no kernel for the gradient of a boolean mask");
    std::vector<std::int64_t> scores(writer_.operand("query")->type.shape);
    scores.back() = arguments_.s;
    const Seen slopes = seen_at(reinterpret_cast<std::byte*>(arguments_.slopes), {DType::float64, std::move(scores)});
    const std::size_t missing = slopes.strides.size() - result.strides.size();
    std::vector<std::int64_t> kept, kept_strides, reduced, reduced_strides;
    for (std::size_t d = 0; d < slopes.strides.size(); ++d) {
      const bool repeats = d < missing || result.type.shape[d - missing] != slopes.type.shape[d];
      (repeats ? reduced : kept).push_back(slopes.type.shape[d]);
      (repeats ? reduced_strides : kept_strides).push_back(slopes.strides[d]);
    }
    const Result<Sizes> kept_sizes = sizes_for(kept), reduced_sizes = sizes_for(reduced);
    const Result<View> from = view_for(slopes, kept_strides), target = view_for(result, {});
    if (!kept_sizes) return kept_sizes.error();
    if (!reduced_sizes) return reduced_sizes.error();
    if (!from) return from.error();
    if (!target) return target.error();
    ReduceArguments sum;
    sum.kept = *kept_sizes;
    sum.reduced = *reduced_sizes;
    for (const std::int64_t size : reduced) sum.count *= size;
    sum.from = *from;
    std::ranges::copy(reduced_strides, sum.reduced_strides);
    sum.result = *target;
    reduce_rows(writer_, sum, result.type.elements(), slopes.range(), result.range());
    return Done{};
  }

  Status write(KernelId kernel, const Seen& result) {
    const Result<View> made = view_for(result, {});
    if (!made) return made.error();
    arguments_.result = *made;
    writer_.launch(kernel, arguments_, result.type.elements(), reads_, {result.range()});
    return Done{};
  }

 private:
  Status take_dropout() {
    arguments_.dropout = node_.number("dropout_p", 0);
    if (arguments_.dropout == 0) return Done{};
    const Result<Shard> rows = shard_of(node_, "rows", arguments_.rows);
    if (!rows) return rows.error();
    arguments_.kept_rows = *rows;
    arguments_.stream = RandomStream(node_).key();
    return Done{};
  }

  Status take_mask(const std::vector<std::int64_t>& query) {
    const Seen* mask = writer_.operand("attn_mask");
    if (mask == nullptr) return Done{};
    std::vector<std::int64_t> scores(query.begin(), query.end() - 1);
    scores.push_back(arguments_.s);
    if (Status status = give_mask(arguments_, *mask, scores, broadcast_strides(*mask, scores)); !status) return status;
    reads_.push_back(mask->range());
    return Done{};
  }

  OpWriter& writer_;
  const Node& node_;
  AttentionArguments arguments_;
  std::vector<Range> reads_;
};

Status write_attention(OpWriter& writer) {
  AttentionWriter attention(writer);
  if (Status status = attention.read(); !status) return status;
  Result<bool> is_written = AttentionDnn(writer, attention.arguments()).write();
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  if (Status status = attention.read_rows(); !status) return status;
  is_written = AttentionProducts(writer, attention.arguments(), attention.reads()).write(writer.results[0]);
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  attention.write_between(KernelId::attention_probabilities, &AttentionArguments::probabilities);
  return attention.write(KernelId::attention_result, writer.results[0]);
}

Status write_attention_backward(OpWriter& writer) {
  const std::vector<std::int64_t> mask = writer.call.node.integers("output_mask");
  const bool wants_mask = mask.size() > 3 && mask[3] != 0;
  Seen* gradients[3] = {};  // of query, key, value; null: not asked for
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (mask.empty() || mask[i] != 0) gradients[i] = &writer.results[next++];
  }
  AttentionWriter attention(writer);
  if (Status status = attention.read(); !status) return status;
  // A mask's gradient wants all slopes in doubles.
  Result<bool> is_written = false;
  if (!wants_mask) is_written = AttentionDnn(writer, attention.arguments()).write_gradients(gradients);
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  if (Status status = attention.read_rows(); !status) return status;
  if (!wants_mask)
    is_written = AttentionProducts(writer, attention.arguments(), attention.reads()).write_gradients(gradients);
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  attention.write_between(KernelId::attention_probabilities, &AttentionArguments::probabilities);
  attention.write_between(KernelId::attention_slopes, &AttentionArguments::slopes);
  constexpr KernelId kKernelOf[] = {KernelId::attention_query_gradient, KernelId::attention_key_gradient,
                                    KernelId::attention_value_gradient};
  for (std::size_t i = 0; i < 3; ++i) {
    if (gradients[i] == nullptr) continue;
    if (Status status = attention.write(kKernelOf[i], *gradients[i]); !status) return status;
  }
  return wants_mask ? attention.write_mask_gradient(writer.results[next]) : Status(Done{});
}

}  // namespace

WriteOp attention_op(std::string_view op) {
  if (op == "aten.scaled_dot_product_attention") return write_attention;
  return op == "meshwright.attention_backward" ? write_attention_backward : nullptr;
}

}  // namespace meshwright::cuda
