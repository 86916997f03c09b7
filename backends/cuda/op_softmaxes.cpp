// Softmax and its logarithm, forward and backward.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/softmaxes.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

Status write_softmax(OpWriter& writer) {
  const Node& node = writer.call.node;
  const bool backward = node.op.ends_with("_backward_data");
  const std::vector<std::int64_t>& shape = writer.operands[0].type.shape;
  if (shape.empty()) return bad_input("cuda has no kernel for " + node.op + " of a single number");
  const auto dim = static_cast<std::ptrdiff_t>(dimension_of(node, writer.operands[0].type.rank(), -1));
  const Seen &input = writer.operands[0], &output = writer.operands[backward ? 1 : 0], &result = writer.results[0];
  SoftmaxArguments arguments;
  arguments.extent = shape[static_cast<std::size_t>(dim)];
  arguments.logarithm = node.op.find("log") != std::string::npos;
  std::vector<std::int64_t> lines = shape;
  lines.erase(lines.begin() + dim);
  std::vector<std::vector<std::int64_t>> strides;
  for (const auto& [tensor, stride] :
       {std::pair(&input, &arguments.input_stride), std::pair(&output, &arguments.output_stride),
        std::pair(&result, &arguments.result_stride)}) {
    *stride = tensor->strides[static_cast<std::size_t>(dim)];
    strides.push_back(tensor->strides);
    strides.back().erase(strides.back().begin() + dim);
  }
  const Walk walk = walk_over(lines, strides);
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  const Result<View> input_view = view_for(input, walk.strides[0]), output_view = view_for(output, walk.strides[1]),
                     result_view = view_for(result, walk.strides[2]);
  if (!sizes) return sizes.error();
  if (!input_view) return input_view.error();
  if (!output_view) return output_view.error();
  if (!result_view) return result_view.error();
  arguments.lines = *sizes;
  arguments.input = *input_view;
  arguments.output = *output_view;
  arguments.result = *result_view;
  writer.launch(backward ? KernelId::softmax_gradient : KernelId::softmax, arguments,
                input.type.elements() / std::max<std::int64_t>(1, arguments.extent), {input.range(), output.range()},
                {result.range()});
  return Done{};
}

constexpr std::string_view kSoftmaxes[] = {"aten.softmax.int",
                                           "aten._softmax",
                                           "aten.log_softmax.int",
                                           "aten._log_softmax",
                                           "aten._softmax_backward_data",
                                           "aten._log_softmax_backward_data"};

}  // namespace

WriteOp softmax_op(std::string_view op) {
  return std::ranges::find(kSoftmaxes, op) != std::end(kSoftmaxes) ? write_softmax : nullptr;
}

}  // namespace meshwright::cuda
