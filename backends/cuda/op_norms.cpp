// Layer norm and root mean square norm, forward and backward: by cuDNN where it takes them, else by kernels.
#include <limits>
#include <memory>
#include <optional>

#include "dnn_norm.h"
#include "kernels/norms.h"
#include "kernels/reductions.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

struct Norm {
  NormArguments arguments;
  Range input, statistics;
};

// All but results and statistics.
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
  for (const char* name : {"grad_output", "grad_out"}) {
    if (Status status = in_rows(name, arguments.gradient, unused); !status) return status.error();
  }
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
  return norm;
}

std::size_t statistics_bytes(const Norm& norm) {
  return static_cast<std::size_t>(norm.arguments.rows) * 2 * sizeof(double);
}

// At this place, or where it is null in scratch.
Launch statistics_of_rows(OpWriter& writer, Norm& norm, std::byte* place) {
  NormArguments& arguments = norm.arguments;
  const std::size_t bytes = statistics_bytes(norm);
  if (place == nullptr) place = writer.scratch(bytes);
  arguments.statistics = reinterpret_cast<double*>(place);
  norm.statistics = {place, bytes};
  return launch_of(KernelId::norm_statistics, arguments, arguments.rows, {norm.input}, {norm.statistics});
}

void add_statistics(OpWriter& writer, Norm& norm) {
  Launch launch = statistics_of_rows(writer, norm, nullptr);
  if (launch.count > 0) writer.add(std::move(launch));
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

// The mean of each row, or the inverse of its deviation, among the norm's statistics: as `like` has it.
Seen statistics_in(const Norm& norm, bool is_mean, const Seen& like) {
  Seen made = seen_at(const_cast<std::byte*>(norm.statistics.begin) + (is_mean ? 0 : sizeof(double)),
                      {DType::float64, like.type.shape});
  for (std::int64_t& stride : made.strides) stride *= 2;
  return made;
}

Result<Norm> begin_norm_rows(OpWriter& writer) {
  Result<Norm> norm = begin(writer);
  if (!norm) return norm;
  const Result<View> result = view_for(writer.results[0], {});
  if (!result) return result.error();
  norm->arguments.result = *result;
  return norm;
}

void write_norm_rows(OpWriter& writer, Norm& norm) {
  add_statistics(writer, norm);
  writer.launch(KernelId::norm_rows, norm.arguments, norm.arguments.rows, reads_of(norm), {writer.results[0].range()});
}

// With the statistics as results.
Status write_native_norm(OpWriter& writer) {
  Result<Norm> norm = begin_norm_rows(writer);
  if (!norm) return norm.error();
  write_norm_rows(writer, *norm);
  if (Status status = writer.copy(statistics_in(*norm, true, writer.results[1]), writer.results[1]); !status)
    return status;
  return writer.copy(statistics_in(*norm, false, writer.results[2]), writer.results[2]);
}

Result<bool> write_norm_by_library(OpWriter& writer, Norm& norm) {
  if (!writer.plan_dnn) return false;
  Result<std::optional<DnnCall>> planned = planned_call(writer, norm_graph(norm.arguments));
  if (!planned) return planned.error();
  if (!*planned) return false;
  DnnCall& call = **planned;
  const NormArguments& arguments = norm.arguments;
  call.workspace = writer.workspace(call.workspace_bytes);
  call.scalars = {{dnn_norm::kEpsilon, static_cast<float>(arguments.epsilon)}};
  call.tensors = {{dnn_norm::kInput, memory_of(arguments.input)},
                  {dnn_norm::kWeight, memory_of(arguments.weight)},
                  {dnn_norm::kOutput, memory_of(arguments.result)}};
  if (arguments.has_bias) call.tensors.emplace_back(dnn_norm::kBias, memory_of(arguments.bias));
  call.kernels = {statistics_of_rows(writer, norm, call.workspace)};
  call.kernels.push_back(
      launch_of(KernelId::norm_rows, arguments, arguments.rows, reads_of(norm), {writer.results[0].range()}));
  writer.add(std::move(call));
  return true;
}

Status write_norm(OpWriter& writer) {
  Result<Norm> norm = begin_norm_rows(writer);
  if (!norm) return norm.error();
  const Result<bool> is_written = write_norm_by_library(writer, *norm);
  if (!is_written) return is_written.error();
  if (!*is_written) write_norm_rows(writer, *norm);
  return Done{};
}

constexpr KernelId kKernelOf[] = {KernelId::norm_input_gradient, KernelId::norm_weight_gradient,
                                  KernelId::norm_bias_gradient};

// Of all gradients that there are; statistics are this backend's own.
Result<bool> write_norm_gradients_by_library(OpWriter& writer, Norm& norm) {
  NormArguments& arguments = norm.arguments;
  if (!writer.plan_dnn || writer.results.size() != (arguments.rms ? 2U : 3U)) return false;
  for (const Seen& result : writer.results) {
    if (result.type.dtype != writer.operand("input")->type.dtype) return false;
  }
  Result<std::optional<DnnCall>> planned = planned_call(writer, norm_gradient_graph(arguments));
  if (!planned) return planned.error();
  if (!*planned) return false;
  DnnCall& call = **planned;
  call.workspace = writer.workspace(call.workspace_bytes);
  const std::size_t bytes = static_cast<std::size_t>(arguments.rows) * sizeof(float);
  const Range means{writer.scratch(bytes), bytes}, deviations{writer.scratch(bytes), bytes};
  arguments.means = reinterpret_cast<float*>(const_cast<std::byte*>(means.begin));
  arguments.deviations = reinterpret_cast<float*>(const_cast<std::byte*>(deviations.begin));
  Launch statistics = statistics_of_rows(writer, norm, nullptr);
  statistics.writes.push_back(means);
  statistics.writes.push_back(deviations);
  writer.add(std::move(statistics));
  call.tensors = {{dnn_norm::kInput, memory_of(arguments.input)},
                  {dnn_norm::kWeight, memory_of(arguments.weight)},
                  {dnn_norm::kGradient, memory_of(arguments.gradient)},
                  {dnn_norm::kDeviation, reinterpret_cast<std::byte*>(arguments.deviations)}};
  if (!arguments.rms) call.tensors.emplace_back(dnn_norm::kMean, reinterpret_cast<std::byte*>(arguments.means));
  std::vector<Range> reads = reads_of(norm);
  reads.push_back(means);
  reads.push_back(deviations);
  arguments.chunk = arguments.rows;
  constexpr std::int64_t kTensorOf[] = {dnn_norm::kInputGradient, dnn_norm::kWeightGradient, dnn_norm::kBiasGradient};
  for (std::size_t i = 0; i < writer.results.size(); ++i) {
    const Seen& result = writer.results[i];
    const Result<View> view = view_for(result, {});
    if (!view) return view.error();
    arguments.result = *view;
    call.tensors.emplace_back(kTensorOf[i], result.data);
    call.kernels.push_back(
        launch_of(kKernelOf[i], arguments, i == 0 ? arguments.rows : arguments.extent, reads, {result.range()}));
  }
  writer.add(std::move(call));
  return true;
}

// By kernels, of statistics that there are.
Status write_norm_gradients(OpWriter& writer, Norm& norm) {
  const std::vector<std::int64_t> mask = writer.call.node.integers("output_mask");
  std::size_t next = 0;
  for (std::size_t i = 0; i < 3 && next < writer.results.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    const Seen& made = writer.results[next++];
    const bool of_input = i == 0;
    NormArguments& arguments = norm.arguments;
    arguments.chunk = ColumnSumArguments::kChunk;
    const Seen result = of_input ? made : chunk_sums(writer, made.type.dtype, arguments.rows, arguments.extent);
    const Result<View> view = view_for(result, {});
    if (!view) return view.error();
    arguments.result = *view;
    writer.launch(kKernelOf[i], arguments, of_input ? arguments.rows : result.type.elements(), reads_of(norm),
                  {result.range()});
    if (of_input) continue;
    if (Status status = sum_chunks(writer, result, 1, made); !status) return status;
  }
  return Done{};
}

Status write_norm_backward(OpWriter& writer) {
  Result<Norm> norm = begin(writer);
  if (!norm) return norm.error();
  const Result<bool> is_written = write_norm_gradients_by_library(writer, *norm);
  if (!is_written) return is_written.error();
  if (*is_written) return Done{};
  add_statistics(writer, *norm);
  return write_norm_gradients(writer, *norm);
}

// With the statistics as operands.
Status write_native_norm_backward(OpWriter& writer) {
  Result<Norm> norm = begin(writer);
  if (!norm) return norm.error();
  const std::size_t bytes = statistics_bytes(*norm);
  norm->statistics = {writer.scratch(bytes), bytes};
  norm->arguments.statistics = reinterpret_cast<double*>(const_cast<std::byte*>(norm->statistics.begin));
  const Seen &mean = *writer.operand("mean"), &deviation = *writer.operand("rstd");
  if (Status status = writer.copy(mean, statistics_in(*norm, true, mean)); !status) return status;
  if (Status status = writer.copy(deviation, statistics_in(*norm, false, deviation)); !status) return status;
  return write_norm_gradients(writer, *norm);
}

}  // namespace

WriteOp norm_op(std::string_view op) {
  if (op == "aten.layer_norm" || op == "aten.rms_norm") return write_norm;
  if (op == "aten.native_layer_norm") return write_native_norm;
  if (op == "aten.native_layer_norm_backward") return write_native_norm_backward;
  return op == "meshwright.layer_norm_backward" || op == "meshwright.rms_norm_backward" ? write_norm_backward : nullptr;
}

}  // namespace meshwright::cuda
