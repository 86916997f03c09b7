// What experts do, forward and backward: to tokens that stay where they are, and to rows that have travelled to them
// (op_expert_exchange.cpp).
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grouped_writer.h"
#include "kernels/experts.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

Result<Gate> gate_of(const Node& node) {
  const std::string name = node.text("activation", "silu");
  constexpr std::pair<std::string_view, Gate> kGates[] = {{"silu", Gate::silu},
                                                          {"gelu", Gate::gelu},
                                                          {"gelu_tanh", Gate::tanh_gelu},
                                                          {"relu", Gate::relu},
                                                          {"clamped", Gate::clamped}};
  for (const auto& [known, gate] : kGates) {
    if (known == name) return gate;
  }
  return bad_input("cuda has no kernel for experts with the activation " + name);
}

// Experts of one call. What it is given lies row by row, or is copied so.
class ExpertWriter {
 public:
  explicit ExpertWriter(OpWriter& writer) : writer_(writer), groups_(writer) {}

  // `indices`: of each row its expert. `is_travelled`: a row may be empty, and its index -1.
  Status begin(const char* indices, bool is_travelled) {
    const Node& node = writer_.call.node;
    const Result<Gate> gate = gate_of(node);
    const Result<Seen> experts = operand(indices), gate_up = operand("gate_up"), down = operand("down");
    if (!gate) return gate.error();
    if (!experts) return experts.error();
    if (!gate_up) return gate_up.error();
    if (!down) return down.error();
    gate_up_ = *gate_up;
    down_ = *down;
    in_first_ = node.boolean("in_first", false);
    rows_ = experts->type.elements();
    a_.copies = is_travelled ? 1 : experts->type.shape[1];
    a_.inner = down_.type.shape[in_first_ ? 1 : 2];
    a_.outputs = down_.type.shape[in_first_ ? 2 : 1];
    a_.gate = *gate;
    a_.interleaved = node.boolean("interleaved", false);
    a_.alpha = node.number("alpha", 1);
    a_.limit = node.number("limit", 0);
    const std::int64_t count = gate_up_.type.shape[0];
    const Result<Shard> shard = shard_of(node, "experts", count);
    if (!shard) return shard.error();
    return groups_.begin(*experts, *shard, count, is_travelled);
  }

  // The results from `first` on: what is saved for the backward, what comes out last.
  Status write_forward(const Seen& rows, std::size_t first) {
    const Seen &before = writer_.results[first], &gated = writer_.results[first + 1],
               &product = writer_.results[first + 2], &output = writer_.results[first + 3];
    std::optional<Seen> bias;
    if (writer_.operand("gate_up_bias") != nullptr) {
      const Result<Seen> given = operand("gate_up_bias");
      if (!given) return given.error();
      bias = *given;
    }
    if (Status status = groups_.multiply(rows, gate_up_, in_first_, bias ? &*bias : nullptr, before); !status)
      return status;
    if (Status status = see({{&before, &a_.before}, {&gated, &a_.gated}, {&product, &a_.product}}); !status)
      return status;
    writer_.launch(KernelId::expert_gate, a_, rows_ * a_.inner, {before.range()}, {gated.range(), product.range()});
    return groups_.multiply(product, down_, in_first_, nullptr, output);
  }

  // The result = the sum of its rows for each token; by the router's weights, or as they are where that is null.
  Status write_sum(const Seen& rows, const Seen* weights, const Seen& result) {
    ExpertArguments sum = a_;
    sum.weights = {};
    sum.outputs = result.type.shape.back();
    std::vector<Range> reads{rows.range()};
    if (weights != nullptr) {
      if (Status status = see(*weights, sum.weights); !status) return status;
      reads.push_back(weights->range());
    }
    if (Status status = see({{&rows, &sum.output}, {&result, &sum.result}}); !status) return status;
    writer_.launch(KernelId::expert_sum, sum, result.type.elements(), std::move(reads), {result.range()});
    return Done{};
  }

  // `result_gradient`: the operand that is the gradient of what the forward made.
  Status write_backward(const char* result_gradient) {
    const char* const names[] = {result_gradient, "weights", "rows", "inner", "gate", "product", "outputs"};
    std::vector<Seen> seen;
    for (const char* name : names) {
      const Result<Seen> found = operand(name);
      if (!found) return found.error();
      seen.push_back(*found);
    }
    const Seen &gradient = seen[0], &weights = seen[1], &rows = seen[2], &before = seen[3], &gated = seen[4],
               &product = seen[5], &output = seen[6];
    const std::vector<Seen>& results = writer_.results;
    if (Status status = see({{&gradient, &a_.gradient},
                             {&weights, &a_.weights},
                             {&before, &a_.before},
                             {&gated, &a_.gated},
                             {&output, &a_.output}});
        !status)
      return status;
    if (Status status = launch(KernelId::expert_weight_gradient, rows_, {gradient, output}, results[1]); !status)
      return status;
    // Products of bfloat16 want factors of bfloat16, as autograd would make them; what is summed on is more precise.
    const DType made = gradient.type.dtype, summed = made == DType::float64 ? DType::float64 : DType::float32;
    const Seen weighed = scratch(made, a_.outputs), sums = scratch(summed, a_.inner),
               slopes = scratch(before.type.dtype, 2 * a_.inner);
    if (Status status = launch(KernelId::expert_weigh, rows_ * a_.outputs, {gradient, weights}, weighed); !status)
      return status;
    if (Status status = groups_.multiply(weighed, down_, !in_first_, nullptr, sums); !status) return status;
    if (Status status = see(sums, a_.sums); !status) return status;
    if (Status status = launch(KernelId::expert_slopes, rows_ * a_.inner, {before, gated, sums}, slopes); !status)
      return status;
    const Seen row_gradients = a_.copies == 1 ? results[0] : scratch(summed, results[0].type.shape.back());
    if (Status status = groups_.multiply(slopes, gate_up_, !in_first_, nullptr, row_gradients); !status) return status;
    if (a_.copies > 1) {
      if (Status status = write_sum(row_gradients, nullptr, results[0]); !status) return status;
    }
    if (Status status = groups_.sum_products(in_first_ ? rows : slopes, in_first_ ? slopes : rows, results[2]); !status)
      return status;
    if (Status status = groups_.sum_products(in_first_ ? product : weighed, in_first_ ? weighed : product, results[3]);
        !status)
      return status;
    return results.size() > 4 ? groups_.sum(slopes, results[4]) : Status(Done{});
  }

 private:
  Result<Seen> operand(const char* name) { return writer_.in_rows(*writer_.operand(name)); }

  Seen scratch(DType dtype, std::int64_t width) { return writer_.in_scratch(dtype, {rows_, width}); }

  static Status see(const Seen& tensor, View& view) {
    const Result<View> made = view_for(tensor, {});
    if (!made) return made.error();
    view = *made;
    return Done{};
  }
  static Status see(std::initializer_list<std::pair<const Seen*, View*>> all) {
    for (const auto& [tensor, view] : all) {
      if (Status status = see(*tensor, *view); !status) return status;
    }
    return Done{};
  }

  Status launch(KernelId kernel, std::int64_t count, std::initializer_list<Seen> reads, const Seen& result) {
    if (Status status = see(result, a_.result); !status) return status;
    std::vector<Range> ranges;
    for (const Seen& tensor : reads) ranges.push_back(tensor.range());
    writer_.launch(kernel, a_, count, std::move(ranges), {result.range()});
    return Done{};
  }

  OpWriter& writer_;
  GroupedWriter groups_;
  ExpertArguments a_;
  Seen gate_up_, down_;
  bool in_first_ = false;
  std::int64_t rows_ = 0;
};

Status write_experts(OpWriter& writer) {
  ExpertWriter experts(writer);
  if (Status status = experts.begin("indices", false); !status) return status;
  // Every token once for each of its experts.
  const Seen &tokens = writer.operands[0], &rows = writer.results[1], &output = writer.results[5];
  const Seen repeated{{tokens.type.dtype, rows.type.shape}, tokens.data, {tokens.strides[0], 0, tokens.strides[1]}};
  if (Status status = writer.copy(repeated, rows); !status) return status;
  if (Status status = experts.write_forward(rows, 2); !status) return status;
  const Result<Seen> weights = writer.in_rows(*writer.operand("weights"));
  return weights ? experts.write_sum(output, &*weights, writer.results[0]) : Status(weights.error());
}

// Rows that lie one after the other.
Status write_rows(OpWriter& writer) {
  ExpertWriter experts(writer);
  if (Status status = experts.begin("experts", true); !status) return status;
  const Result<Seen> rows = writer.in_rows(writer.operands[0]);
  return rows ? experts.write_forward(*rows, 0) : Status(rows.error());
}

Status write_rows_backward(OpWriter& writer) {
  ExpertWriter experts(writer);
  if (Status status = experts.begin("experts", true); !status) return status;
  return experts.write_backward("gradients");
}

Status write_experts_backward(OpWriter& writer) {
  ExpertWriter experts(writer);
  if (Status status = experts.begin("indices", false); !status) return status;
  return experts.write_backward("grad_output");
}

}  // namespace

WriteOp expert_op(std::string_view op) {
  if (op == "meshwright.experts") return write_experts;
  if (op == "meshwright.experts_rows") return write_rows;
  if (op == "meshwright.experts_rows_backward") return write_rows_backward;
  return op == "meshwright.experts_backward" ? write_experts_backward : nullptr;
}

}  // namespace meshwright::cuda
