// Convolutions and transposed ones, forward and backward.
#include <algorithm>
#include <string>

#include "dnn_convolution.h"
#include "kernels/convolutions.h"
#include "kernels/pointwise.h"
#include "kernels/reductions.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kInputGradient = "meshwright.convolution_backward_input";
constexpr std::string_view kWeightGradient = "meshwright.convolution_backward_weight";
constexpr std::string_view kAllGradients = "aten.convolution_backward";

// What the op reads of input, weight and output, or makes: the family's names for them, in all of its ops.
struct Tensors {
  Seen input, weight, output;
};

// A number for each dimension of space, behind those that it lacks; a list of one stands for all.
void spread(const std::vector<std::int64_t>& list, std::size_t space, std::int64_t otherwise, std::int64_t neutral,
            std::int64_t* made) {
  for (std::size_t d = 0; d < kSpace; ++d) made[d] = neutral;
  for (std::size_t d = 0; d < space; ++d)
    made[kSpace - space + d] = list.empty() ? otherwise : list.size() == 1 ? list[0] : list[d];
}

Result<ConvolutionArguments> describe(const Node& node, const Tensors& tensors) {
  const std::vector<std::int64_t>&input = tensors.input.type.shape, &weight = tensors.weight.type.shape,
        &output = tensors.output.type.shape;
  if (input.size() < 3 || input.size() > kSpace + 2 || weight.size() != input.size() || output.size() != input.size())
    return bad_input("cuda has a kernel for convolutions of one to three dimensions, with a batch, and the input is " +
                     to_string(tensors.input.type));
  if (weight[1] == 0 || input[1] / weight[1] == 0) return bad_input("cuda has no kernel for convolutions of nothing");
  const std::size_t space = input.size() - 2;
  ConvolutionArguments a;
  a.batch = input[0];
  a.inputs = input[1];
  a.outputs = output[1];
  a.group_inputs = weight[1];
  a.group_outputs = a.outputs / (a.inputs / a.group_inputs);
  spread({input.begin() + 2, input.end()}, space, 1, 1, a.x);
  spread({weight.begin() + 2, weight.end()}, space, 1, 1, a.k);
  spread({output.begin() + 2, output.end()}, space, 1, 1, a.y);
  spread(node.integers("stride"), space, 1, 1, a.stride);
  spread(node.integers("dilation"), space, 1, 1, a.dilation);
  spread(node.integers("padding"), space, 0, 0, a.padding);
  for (std::size_t d = 0; d < kSpace && node.text("padding", "valid") == "same"; ++d)
    a.padding[d] = a.dilation[d] * (a.k[d] - 1) / 2;  // an odd one goes behind
  for (const auto& [tensor, view] : {std::pair(&tensors.input, &a.input), std::pair(&tensors.weight, &a.weight),
                                     std::pair(&tensors.output, &a.output)}) {
    const Result<View> made = view_for(*tensor, {});
    if (!made) return made.error();
    *view = *made;
  }
  return a;
}

// A sum over examples and positions for each channel.
Status write_bias_gradient(OpWriter& writer, const Seen& gradient, const Seen& result) {
  const Result<View> from = view_for(gradient, {}), target = view_for(result, {});
  if (!from) return from.error();
  if (!target) return target.error();
  const std::int64_t batch = gradient.type.shape[0], channels = gradient.type.shape[1],
                     space = batch * channels == 0 ? 0 : gradient.type.elements() / batch / channels;
  ReduceArguments arguments;
  arguments.kept.rank = 1;
  arguments.kept.of[0] = channels;
  arguments.reduced.rank = 2;
  arguments.reduced.of[0] = batch;
  arguments.reduced.of[1] = space;
  arguments.count = batch * space;
  arguments.from = *from;
  arguments.from.strides[0] = space;
  arguments.reduced_strides[0] = channels * space;
  arguments.reduced_strides[1] = 1;
  arguments.result = *target;
  reduce_rows(writer, arguments, channels, gradient.range(), result.range());
  return Done{};
}

// Whether cuDNN takes it. The bias is added to each channel behind it.
Result<bool> write_by_library(OpWriter& writer, const Tensors& tensors, const ConvolutionArguments& arguments,
                              Launch kernel) {
  std::optional<DnnGraph> graph;
  if (writer.plan_dnn && kernel.count > 0) graph = convolution_graph(arguments, kernel.kernel);
  Result<std::optional<DnnCall>> planned = planned_call(writer, std::move(graph));
  if (!planned) return planned.error();
  if (!*planned) return false;
  DnnCall& call = **planned;
  call.tensors = {
      {kDnnInput, tensors.input.data}, {kDnnWeight, tensors.weight.data}, {kDnnOutput, tensors.output.data}};
  call.workspace = writer.workspace(call.workspace_bytes);
  call.kernels = {std::move(kernel)};
  writer.add(std::move(call));
  return true;
}

Status add_by_channel(OpWriter& writer, const Seen& bias, const Seen& made) {
  std::vector<std::int64_t> strides(made.strides.size(), 0);
  strides[1] = 1;
  return combine_into(writer, Function::add, Seen{{bias.type.dtype, made.type.shape}, bias.data, strides}, made);
}

// One of the three, of which two are read.
Status write_one(OpWriter& writer, const Tensors& tensors, KernelId kernel, const Seen* bias) {
  Result<ConvolutionArguments> arguments = describe(writer.call.node, tensors);
  if (!arguments) return arguments.error();
  const Seen& made = kernel == KernelId::convolution_output  ? tensors.output
                     : kernel == KernelId::convolution_input ? tensors.input
                                                             : tensors.weight;
  std::vector<Range> reads;
  for (const Seen* tensor : {&tensors.input, &tensors.weight, &tensors.output}) {
    if (tensor != &made) reads.push_back(tensor->range());
  }
  const auto by_kernel = [&] { return launch_of(kernel, *arguments, made.type.elements(), reads, {made.range()}); };
  const Result<bool> is_written = write_by_library(writer, tensors, *arguments, by_kernel());
  if (!is_written) return is_written.error();
  if (bias != nullptr) {
    const Result<Seen> rows = writer.in_rows(*bias);
    if (!rows) return rows.error();
    if (*is_written) return add_by_channel(writer, *rows, made);
    const Result<View> view = view_for(*rows, {});
    if (!view) return view.error();
    arguments->has_bias = true;
    arguments->bias = *view;
    reads.push_back(rows->range());
  }
  if (!*is_written && made.type.elements() > 0) writer.add(by_kernel());
  return Done{};
}

Status write_all_gradients(OpWriter& writer, const std::vector<Seen>& rows) {
  const Node& node = writer.call.node;
  if (node.boolean("transposed", false))
    return bad_input("cuda has no kernel for " + node.op + " of a transposed convolution");
  const std::vector<std::int64_t> mask = node.integers("output_mask");
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3 && next < writer.results.size(); ++i) {
    if (mask.size() > i && mask[i] == 0) continue;
    const Seen& made = writer.results[next++];
    Status status = i == 0   ? write_one(writer, {made, rows[2], rows[0]}, KernelId::convolution_input, nullptr)
                    : i == 1 ? write_one(writer, {rows[1], made, rows[0]}, KernelId::convolution_weight, nullptr)
                             : write_bias_gradient(writer, rows[0], made);
    if (!status) return status;
  }
  return Done{};
}

Status write_convolution(OpWriter& writer) {
  const Node& node = writer.call.node;
  std::vector<Seen> rows;
  for (std::size_t i = 0; i < writer.operands.size() && (i < 2 || node.op == kAllGradients); ++i) {
    Result<Seen> made = writer.in_rows(writer.operands[i]);
    if (!made) return made.error();
    rows.push_back(std::move(*made));
  }
  if (node.op == kAllGradients) return write_all_gradients(writer, rows);
  const Seen& result = writer.results[0];
  const Seen* bias = writer.operands.size() > 2 ? &writer.operands[2] : nullptr;
  if (node.op == kWeightGradient)
    return write_one(writer, {rows[1], result, rows[0]}, KernelId::convolution_weight, bias);
  // A transposed convolution is what gives another one's input its gradient.
  if (node.op == kInputGradient || node.boolean("transposed", false) || node.op.starts_with("aten.conv_transpose"))
    return write_one(writer, {result, rows[1], rows[0]}, KernelId::convolution_input, bias);
  return write_one(writer, {rows[0], rows[1], result}, KernelId::convolution_output, bias);
}

constexpr std::string_view kConvolutions[] = {"aten.conv1d",
                                              "aten.conv2d",
                                              "aten.conv3d",
                                              "aten.conv1d.padding",
                                              "aten.conv2d.padding",
                                              "aten.conv3d.padding",
                                              "aten.convolution",
                                              "aten.conv_transpose1d",
                                              "aten.conv_transpose2d.input",
                                              "aten.conv_transpose3d.input",
                                              kInputGradient,
                                              kWeightGradient,
                                              kAllGradients};

}  // namespace

WriteOp convolution_op(std::string_view op) {
  return std::ranges::find(kConvolutions, op) != std::end(kConvolutions) ? write_convolution : nullptr;
}

}  // namespace meshwright::cuda
