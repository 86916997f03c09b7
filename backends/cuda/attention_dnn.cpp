#include "attention_dnn.h"

#include <limits>
#include <memory>

#include "dnn_attention.h"
#include "kernels/movement.h"

namespace meshwright::cuda {

namespace {

using namespace dnn_attention;

double* numbers_in(const Range& range) { return reinterpret_cast<double*>(const_cast<std::byte*>(range.begin)); }

}  // namespace

Result<std::optional<DnnCall>> AttentionDnn::planned(std::optional<DnnGraph> graph) const {
  Result<std::optional<DnnCall>> call = planned_call(writer_, std::move(graph));
  if (!call || !*call) return call;
  (*call)->scalars = {{kScale, static_cast<float>(arguments_.scale)}};
  // As cuDNN's engines are asked for it: less infinity would be no number where all of a tile is unseen.
  if (arguments_.causal) (*call)->scalars.emplace_back(kUnseen, std::numeric_limits<float>::lowest());
  return call;
}

void AttentionDnn::give_operands(DnnCall& call, std::byte* output, std::byte* statistics) const {
  call.workspace = writer_.workspace(call.workspace_bytes);
  call.tensors = {{kQuery, memory_of(arguments_.query)},
                  {kTurnedKey, memory_of(arguments_.key)},
                  {kOutput, output},
                  {kStatistics, statistics}};
}

Result<bool> AttentionDnn::write(const Seen& result) {
  if (!writer_.plan_dnn) return false;
  Result<std::optional<DnnCall>> call = planned(attention_graph(arguments_));
  if (!call) return call.error();
  if (!*call) return false;
  const Result<View> made = view_for(result, {});
  if (!made) return made.error();
  DnnCall& taken = **call;
  give_operands(taken, result.data, writer_.scratch(static_cast<std::size_t>(arguments_.rows) * sizeof(float)));
  taken.tensors.emplace_back(kValue, memory_of(arguments_.value));
  AttentionArguments arguments = arguments_;
  const Range probabilities = between(taken, 0, 1);
  arguments.probabilities = numbers_in(probabilities);
  arguments.result = *made;
  std::vector<Range> reads = reads_;
  taken.kernels.push_back(
      launch_of(KernelId::attention_probabilities, arguments, arguments.rows, reads, {probabilities}));
  reads.push_back(probabilities);
  taken.kernels.push_back(
      launch_of(KernelId::attention_result, arguments, result.type.elements(), std::move(reads), {result.range()}));
  writer_.add(std::move(taken));
  return true;
}

Result<bool> AttentionDnn::write_gradients(const Seen* const (&gradients)[3]) {
  if (!writer_.plan_dnn) return false;
  Result<std::optional<DnnCall>> forward = planned(attention_graph(arguments_)),
                                 backward = planned(attention_gradient_graph(arguments_));
  if (!forward) return forward.error();
  if (!backward) return backward.error();
  if (!*forward || !*backward) return false;
  const auto bytes_of_view = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements * bytes_of(arguments_.query.element));
  };
  const std::int64_t keys = arguments_.rows / arguments_.l / arguments_.repeats * arguments_.s;
  std::byte* const statistics = writer_.scratch(static_cast<std::size_t>(arguments_.rows) * sizeof(float));
  // What it makes is there already.
  give_operands(**forward, writer_.scratch(bytes_of_view(arguments_.rows * arguments_.e)), statistics);
  (*forward)->tensors.emplace_back(kValue, memory_of(arguments_.value));
  writer_.add(std::move(**forward));

  DnnCall& call = **backward;
  give_operands(call, memory_of(arguments_.output), statistics);
  call.tensors.insert(call.tensors.end(), {{kKey, memory_of(arguments_.key)},
                                           {kTurnedValue, memory_of(arguments_.value)},
                                           {kGradient, memory_of(arguments_.gradient)}});
  AttentionArguments arguments = arguments_;
  const Range probabilities = between(call, 0, 2), slopes = between(call, 1, 2);
  arguments.probabilities = numbers_in(probabilities);
  arguments.slopes = numbers_in(slopes);
  std::vector<Range> reads = reads_;
  call.kernels.push_back(
      launch_of(KernelId::attention_probabilities, arguments, arguments.rows, reads, {probabilities}));
  reads.push_back(probabilities);
  call.kernels.push_back(launch_of(KernelId::attention_slopes, arguments, arguments.rows, reads, {slopes}));
  reads.push_back(slopes);
  constexpr KernelId kKernelOf[] = {KernelId::attention_query_gradient, KernelId::attention_key_gradient,
                                    KernelId::attention_value_gradient};
  constexpr std::int64_t kTensorOf[] = {kQueryGradient, kKeyGradient, kValueGradient};
  for (std::size_t i = 0; i < 3; ++i) {
    if (gradients[i] == nullptr) {  // the library makes it all the same
      const std::int64_t elements = i == 0 ? arguments.rows * arguments.d : keys * arguments.d;
      call.tensors.emplace_back(kTensorOf[i], writer_.scratch(bytes_of_view(elements)));
      continue;
    }
    const Seen& result = *gradients[i];
    const Result<View> made = view_for(result, {});
    if (!made) return made.error();
    arguments.result = *made;
    call.tensors.emplace_back(kTensorOf[i], result.data);
    call.kernels.push_back(launch_of(kKernelOf[i], arguments, result.type.elements(), reads, {result.range()}));
  }
  writer_.add(std::move(call));
  return true;
}

}  // namespace meshwright::cuda
