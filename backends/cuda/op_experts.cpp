// What experts do, forward and backward: to tokens that stay where they are, and to rows that have travelled to them
// (op_expert_exchange.cpp).
#include <string>
#include <utility>

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

class ExpertWriter {
 public:
  explicit ExpertWriter(OpWriter& writer) : writer_(writer), node_(writer.call.node) {}

  // Those operands of a call that are in its first places, by their order.
  Status begin(std::span<View* const> views, std::int64_t hidden, std::int64_t outputs) {
    for (std::size_t i = 0; i < writer_.operands.size() && i < views.size(); ++i) {
      const Result<Seen> rows = writer_.in_rows(writer_.operands[i]);
      if (!rows) return rows.error();
      if (Status status = set(*rows, *views[i]); !status) return status;
      reads_.push_back(rows->range());
    }
    const Seen* indices = writer_.operand("indices");
    const TensorType& numbers = indices != nullptr ? indices->type : writer_.operand("experts")->type;
    const std::vector<std::int64_t>& down = writer_.operand("down")->type.shape;
    const Result<Gate> gate = gate_of(node_);
    const Result<Shard> experts = shard_of(node_, "experts", writer_.operand("gate_up")->type.shape[0]);
    if (!gate) return gate.error();
    if (!experts) return experts.error();
    a.gate = *gate;
    a.experts = *experts;
    a.copies = indices != nullptr ? numbers.shape[1] : 1;
    a.rows = numbers.elements();
    a.in_first = node_.boolean("in_first", false);
    a.interleaved = node_.boolean("interleaved", false);
    a.alpha = node_.number("alpha", 1);
    a.limit = node_.number("limit", 0);
    a.hidden = hidden;
    a.inner = down[a.in_first ? 1 : 2];
    a.outputs = outputs;
    return Done{};
  }

  Status write(KernelId kernel, std::size_t result, std::int64_t count) {
    if (Status status = set(writer_.results[result], a.result); !status) return status;
    writer_.launch(kernel, a, count, reads_, {writer_.results[result].range()});
    return Done{};
  }

  // What is saved for the backward, and read by what comes behind it.
  void write_saved(KernelId kernel, std::int64_t count, std::initializer_list<std::size_t> results) {
    std::vector<Range> made;
    for (const std::size_t result : results) made.push_back(writer_.results[result].range());
    writer_.launch(kernel, a, count, reads_, made);
    reads_.insert(reads_.end(), made.begin(), made.end());
  }

  void write_slopes() {
    const std::size_t bytes = static_cast<std::size_t>(a.rows * 2 * a.inner) * sizeof(double);
    std::byte* memory = writer_.scratch(bytes);
    a.slopes = reinterpret_cast<double*>(memory);
    writer_.launch(KernelId::expert_slopes, a, a.rows * a.inner, reads_, {{memory, bytes}});
    reads_.push_back({memory, bytes});
  }

  void reads(const Seen& tensor) { reads_.push_back(tensor.range()); }

  static Status set(const Seen& tensor, View& view) {
    const Result<View> made = view_for(tensor, {});
    if (!made) return made.error();
    view = *made;
    return Done{};
  }

  ExpertArguments a;

 private:
  OpWriter& writer_;
  const Node& node_;
  std::vector<Range> reads_;
};

void write_forward(ExpertWriter& experts, std::size_t first) {
  const ExpertArguments& a = experts.a;
  experts.write_saved(KernelId::expert_before, a.rows * 2 * a.inner, {first});
  experts.write_saved(KernelId::expert_gate, a.rows * a.inner, {first + 1, first + 2});
  experts.write_saved(KernelId::expert_output, a.rows * a.outputs, {first + 3});
}

Status write_experts(OpWriter& writer) {
  ExpertWriter experts(writer);
  ExpertArguments& a = experts.a;
  View hidden;
  View* const views[] = {&hidden, &a.indices, &a.weights, &a.gate_up, &a.down, &a.bias};
  if (Status status = experts.begin(views, writer.operands[0].type.shape[1], writer.results[0].type.shape[1]); !status)
    return status;
  // Every token once for each of its experts.
  const Seen& tokens = writer.operands[0];
  const Seen repeated{{tokens.type.dtype, {tokens.type.shape[0], a.copies, a.hidden}},
                      tokens.data,
                      {tokens.strides[0], 0, tokens.strides[1]}};
  if (Status status = writer.copy(repeated, writer.results[1]); !status) return status;
  View* const saved[] = {&a.row, &a.before, &a.gated, &a.product, &a.output};
  for (std::size_t i = 0; i < std::size(saved); ++i) {
    if (Status status = ExpertWriter::set(writer.results[i + 1], *saved[i]); !status) return status;
  }
  experts.reads(writer.results[1]);
  write_forward(experts, 2);
  return experts.write(KernelId::expert_sum, 0, writer.results[0].type.elements());
}

// Rows that lie one after the other.
Status write_rows(OpWriter& writer) {
  ExpertWriter experts(writer);
  ExpertArguments& a = experts.a;
  View* const views[] = {&a.row, &a.indices, &a.gate_up, &a.down, &a.bias};
  if (Status status = experts.begin(views, writer.operands[0].type.shape.back(), writer.results[3].type.shape.back());
      !status)
    return status;
  View* const saved[] = {&a.before, &a.gated, &a.product, &a.output};
  for (std::size_t i = 0; i < std::size(saved); ++i) {
    if (Status status = ExpertWriter::set(writer.results[i], *saved[i]); !status) return status;
  }
  write_forward(experts, 0);
  return Done{};
}

Status write_gradients(OpWriter& writer, ExpertWriter& experts) {
  experts.write_slopes();
  constexpr KernelId kKernelOf[] = {KernelId::expert_input_gradient, KernelId::expert_weight_gradient,
                                    KernelId::expert_gate_up_gradient, KernelId::expert_down_gradient,
                                    KernelId::expert_bias_gradient};
  for (std::size_t i = 0; i < writer.results.size(); ++i) {
    if (Status status = experts.write(kKernelOf[i], i, writer.results[i].type.elements()); !status) return status;
  }
  return Done{};
}

Status write_rows_backward(OpWriter& writer) {
  ExpertWriter experts(writer);
  ExpertArguments& a = experts.a;
  View* const views[] = {&a.indices, &a.weights, &a.gradient, &a.gate_up, &a.down, &a.row,
                         &a.before,  &a.gated,   &a.product,  &a.output,  &a.bias};
  if (Status status = experts.begin(views, writer.results[0].type.shape.back(), writer.operands[2].type.shape.back());
      !status)
    return status;
  return write_gradients(writer, experts);
}

Status write_experts_backward(OpWriter& writer) {
  ExpertWriter experts(writer);
  ExpertArguments& a = experts.a;
  View* const views[] = {&a.gradient, &a.indices, &a.weights, &a.gate_up, &a.down, &a.row,
                         &a.before,   &a.gated,   &a.product, &a.output,  &a.bias};
  if (Status status = experts.begin(views, writer.results[0].type.shape[1], writer.operands[0].type.shape[1]); !status)
    return status;
  return write_gradients(writer, experts);
}

}  // namespace

WriteOp expert_op(std::string_view op) {
  if (op == "meshwright.experts") return write_experts;
  if (op == "meshwright.experts_rows") return write_rows;
  if (op == "meshwright.experts_rows_backward") return write_rows_backward;
  return op == "meshwright.experts_backward" ? write_experts_backward : nullptr;
}

}  // namespace meshwright::cuda
