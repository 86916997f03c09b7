// Layer norm and root mean square norm, forward and backward.
#include <limits>

#include "kernels/norms.h"
#include "kernels/reductions.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

struct Norm {
  NormArguments arguments;
  Range input, statistics;
};

// All but results, and a launch that finds the statistics.
Result<Norm> begin(OpWriter& writer) {
  const Node& node = writer.call.node;
  Norm norm;
  NormArguments& arguments = norm.arguments;
  const auto in_rows = [&](const char* name, View& view, Range& range) -> Status {
    const Seen* operand = writer.operand(name);
    if (operand == nullptr) return Done{};
    const Result<Seen> rows = writer.in_rows(*operand);
    if (!rows) return rows.error();
    const Result<View> made = view_for(*rows, {});
    if (!made) return made.error();
    view = *made;
    range = rows->range();
    return Done{};
  };
  Range unused;
  if (Status status = in_rows("input", arguments.input, norm.input); !status) return status.error();
  if (Status status = in_rows("weight", arguments.weight, unused); !status) return status.error();
  if (Status status = in_rows("bias", arguments.bias, unused); !status) return status.error();
  if (Status status = in_rows("grad_output", arguments.gradient, unused); !status) return status.error();
  arguments.has_weight = writer.operand("weight") != nullptr;
  arguments.has_bias = writer.operand("bias") != nullptr;
  arguments.rms = node.op.find("rms_norm") != std::string::npos;
  const TensorType& input = writer.operand("input")->type;
  const double own_epsilon =
      input.dtype == DType::float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  arguments.epsilon = node.number("eps", arguments.rms ? own_epsilon : 1e-5);
  arguments.extent = 1;
  for (std::size_t i = 0; i < node.integers("normalized_shape").size(); ++i)
    arguments.extent *= input.shape[input.shape.size() - 1 - i];
  arguments.rows = arguments.extent == 0 ? 0 : input.elements() / arguments.extent;
  const std::size_t bytes = static_cast<std::size_t>(arguments.rows) * 2 * sizeof(double);
  std::byte* statistics = writer.scratch(bytes);
  arguments.statistics = reinterpret_cast<double*>(statistics);
  norm.statistics = {statistics, bytes};
  writer.launch(KernelId::norm_statistics, arguments, arguments.rows, {norm.input}, {norm.statistics});
  return norm;
}

// What a kernel of norms reads besides: all operands, wherever they lie.
std::vector<Range> reads_of(const Norm& norm) {
  std::vector<Range> reads{norm.input, norm.statistics};
  const NormArguments& arguments = norm.arguments;
  const auto add = [&](const View& view, std::int64_t elements) {
    if (view.data != nullptr)
      reads.push_back({static_cast<const std::byte*>(view.data),
                       static_cast<std::size_t>(elements * size_bytes(static_cast<DType>(view.element)))});
  };
  add(arguments.weight, arguments.extent);
  add(arguments.bias, arguments.extent);
  add(arguments.gradient, arguments.rows * arguments.extent);
  return reads;
}

Status write_norm(OpWriter& writer) {
  Result<Norm> norm = begin(writer);
  if (!norm) return norm.error();
  const Result<View> result = view_for(writer.results[0], {});
  if (!result) return result.error();
  norm->arguments.result = *result;
  writer.launch(KernelId::norm_rows, norm->arguments, norm->arguments.rows, reads_of(*norm),
                {writer.results[0].range()});
  return Done{};
}

Status write_norm_backward(OpWriter& writer) {
  Result<Norm> norm = begin(writer);
  if (!norm) return norm.error();
  const std::vector<std::int64_t> mask = writer.call.node.integers("output_mask");
  constexpr KernelId kKernelOf[] = {KernelId::norm_input_gradient, KernelId::norm_weight_gradient,
                                    KernelId::norm_bias_gradient};
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3 && next < writer.results.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    const Seen& made = writer.results[next++];
    const bool of_input = i == 0;
    NormArguments& arguments = norm->arguments;
    arguments.chunk = ColumnSumArguments::kChunk;
    const Seen result = of_input ? made : chunk_sums(writer, made.type.dtype, arguments.rows, arguments.extent);
    const Result<View> view = view_for(result, {});
    if (!view) return view.error();
    arguments.result = *view;
    writer.launch(kKernelOf[i], arguments, of_input ? arguments.rows : result.type.elements(), reads_of(*norm),
                  {result.range()});
    if (of_input) continue;
    if (Status status = sum_chunks(writer, result, 1, made); !status) return status;
  }
  return Done{};
}

}  // namespace

WriteOp norm_op(std::string_view op) {
  if (op == "aten.layer_norm" || op == "aten.rms_norm") return write_norm;
  return op == "meshwright.layer_norm_backward" || op == "meshwright.rms_norm_backward" ? write_norm_backward : nullptr;
}

}  // namespace meshwright::cuda
