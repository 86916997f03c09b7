#include "attention_dnn.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "attention_mask.h"
#include "kernels/movement.h"
#include "state_places.h"

namespace meshwright::cuda {

namespace {

using namespace dnn_attention;

// The statistic of a query that sees no key: exponentials of scores less this are 0, and so are all its gradients.
constexpr double kNoWeight = 1e30;

constexpr const char* kStatisticsOfScores = "statistics of scores";

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30U;  // of a bias, as of a library's workspace

// Its strides, as cuDNN takes it where it lies: [batches, heads, positions, numbers], in pieces of 16 bytes. A
// dimension of one element, which a view may have at any stride, goes over all others. Nothing: it has to be copied.
std::optional<std::vector<std::int64_t>> strides_there(const Seen& seen) {
  constexpr std::int64_t kPiece = 8;
  const std::vector<std::int64_t>& sizes = seen.type.shape;
  if (sizes.size() != 4 || seen.type.dtype != DType::bfloat16 || seen.strides[3] != 1) return {};
  if (alignment_of(seen.data) < 16) return {};
  std::vector<std::int64_t> strides = seen.strides;
  std::int64_t over_all = 0;
  for (std::size_t d = 0; d < 4; ++d) over_all = std::max(over_all, sizes[d] > 1 ? sizes[d] * strides[d] : 0);
  for (std::size_t d = 0; d < 3; ++d) {
    if (sizes[d] == 1) strides[d] = over_all;
    if (strides[d] == 0 || strides[d] % kPiece != 0) return {};
  }
  return strides;
}

std::size_t bytes_of(const Seen& seen) { return static_cast<std::size_t>(seen.type.bytes()); }

double* numbers_in(const Range& range) { return reinterpret_cast<double*>(const_cast<std::byte*>(range.begin)); }

}  // namespace

std::vector<std::int64_t> AttentionDnn::scores() const {
  std::vector<std::int64_t> shape = writer_.operand("query")->type.shape;
  shape.back() = arguments_.s;
  return shape;
}

// Its dimensions are those that cuDNN's users give it: [1 or all, 1 or all, queries, keys].
std::optional<AttentionBias> AttentionDnn::mask_as_bias() const {
  const Seen* mask = writer_.operand("attn_mask");
  if (mask == nullptr || (mask->type.dtype != DType::boolean && mask->type.dtype != DType::bfloat16)) return {};
  const std::vector<std::int64_t> shape = scores(), strides = broadcast_strides(*mask, shape);
  const std::size_t heads_at = shape.size() - 3;
  const auto differs = [](std::int64_t stride) { return stride != 0; };
  const bool has_batches = std::any_of(strides.begin(), strides.end() - 3, differs), has_heads = strides[heads_at] != 0;
  const std::int64_t heads = shape[heads_at], batches = has_batches ? arguments_.rows / arguments_.l / heads : 1;
  AttentionBias made{heads, {batches, has_heads ? heads : 1, arguments_.l, arguments_.s}};
  return made.bytes() <= kMostBytes ? std::optional(std::move(made)) : std::nullopt;
}

Result<std::optional<AttentionDnn::Added>> AttentionDnn::add_mask(const std::optional<AttentionBias>& bias) {
  if (!bias) return std::optional<Added>();
  const Seen& mask = *writer_.operand("attn_mask");
  const std::vector<std::int64_t> all = scores();
  std::vector<std::int64_t> shape = all;
  if (bias->sizes[0] == 1) std::fill(shape.begin(), shape.end() - 3, 1);
  shape[shape.size() - 3] = bias->sizes[1];
  const Seen numbers = writer_.in_scratch(AttentionBias::kType, shape);
  const std::int64_t rows = numbers.type.elements() / arguments_.s;
  const Range unseen{writer_.scratch(static_cast<std::size_t>(rows)), static_cast<std::size_t>(rows)};
  const Result<View> made = view_for(numbers, {});
  if (!made) return made.error();
  AttentionArguments writes = arguments_;
  writes.result = *made;
  writes.unseen = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(unseen.begin));
  if (Status status = give_mask(writes, mask, shape, broadcast_strides(mask, all)); !status) return status.error();
  writer_.launch(KernelId::attention_bias, writes, rows, {mask.range()}, {numbers.range(), unseen});
  Added added{numbers.range(), unseen, writes};
  if (Status status = give_mask(added.arguments, numbers, all, broadcast_strides(numbers, all)); !status)
    return status.error();
  return std::optional(added);
}

void AttentionDnn::correct(const Added& added, const View& made, std::int64_t columns, double number,
                           const Range& range) {
  AttentionArguments arguments = added.arguments;
  arguments.result = made;
  arguments.e = columns;
  arguments.of_unseen = number;
  writer_.launch(KernelId::attention_unseen, arguments, arguments.rows, {added.unseen}, {range});
}

Status AttentionDnn::see_operands() {
  for (const auto& [name, member] : kOperands) {
    const Seen* seen = writer_.operand(name);
    if (seen == nullptr) continue;
    View& view = arguments_.*member;
    std::optional<std::vector<std::int64_t>> strides;
    if (!seen->is_contiguous()) strides = strides_there(*seen);
    const Result<View> made = view_for(*seen, strides.value_or(std::vector<std::int64_t>()));
    if (!made) return made.error();
    view = *made;
    if (strides) heads_ = writer_.operand("query")->type.shape[1];
    if (!strides && !seen->is_contiguous()) view.data = nullptr;
  }
  return Done{};
}

Status AttentionDnn::copy_others() {
  for (const auto& [name, member] : kOperands) {
    const Seen* seen = writer_.operand(name);
    if (seen == nullptr || (arguments_.*member).data != nullptr) continue;
    const Result<Seen> rows = writer_.in_rows(*seen);
    if (!rows) return rows.error();
    (arguments_.*member).data = rows->data;
  }
  return Done{};
}

Result<std::optional<DnnCall>> AttentionDnn::planned(std::optional<DnnGraph> graph) const {
  if (graph) {
    graph->kernel_bytes = aligned(graph->kernel_bytes);
    for (const auto& [name, member] : kOperands) {
      const bool has_rows = has_strides(arguments_.*member);
      if (has_rows) graph->kernel_bytes += 2 * aligned(bytes_of(*writer_.operand(name)));  // and what is made of it
    }
  }
  Result<std::optional<DnnCall>> call = planned_call(writer_, std::move(graph));
  if (!call || !*call) return call;
  (*call)->scalars = {{kScale, static_cast<float>(arguments_.scale)}};
  // As cuDNN's engines are asked for it: less infinity would be no number where all of a tile is unseen.
  if (arguments_.causal) (*call)->scalars.emplace_back(kUnseen, std::numeric_limits<float>::lowest());
  return call;
}

Range AttentionDnn::statistics_at(std::byte* memory) {
  return {memory != nullptr ? memory : writer_.scratch(statistics_bytes()), statistics_bytes()};
}

void AttentionDnn::give_operands(DnnCall& call, const std::optional<Added>& added, std::byte* output,
                                 const Range& statistics) const {
  call.workspace = writer_.workspace(call.workspace_bytes);
  call.tensors = {{kQuery, memory_of(arguments_.query)},
                  {kTurnedKey, memory_of(arguments_.key)},
                  {kOutput, output},
                  {kStatistics, const_cast<std::byte*>(statistics.begin)}};
  if (added) call.tensors.emplace_back(kBias, const_cast<std::byte*>(added->numbers.begin));
}

Range AttentionDnn::between(const DnnCall& call, std::size_t part) const {
  const std::size_t bytes = static_cast<std::size_t>(arguments_.rows * arguments_.s) * sizeof(double);
  return {call.workspace + part * bytes, bytes};
}

// Behind `used` bytes of the call's workspace.
struct AttentionDnn::Rows {
  DnnCall& call;
  std::size_t used = 0;
  std::vector<Range> reads = {};

  // Lets a kernel read the operand.
  Status read(const Seen& operand, View& view) {
    if (!has_strides(view)) {  // it lies so, or is a copy
      reads.push_back({static_cast<const std::byte*>(view.data), bytes_of(operand)});
      return Done{};
    }
    const Seen rows = take(operand.type);
    Result<Launch> copy = OpWriter::launch_of_copy(operand, rows);
    if (!copy) return copy.error();
    call.kernels.push_back(std::move(*copy));
    view.data = rows.data;
    reads.push_back(rows.range());
    return Done{};
  }

  // Lets it make the result.
  Status make(KernelId kernel, AttentionArguments arguments, const Seen& result) {
    const Seen rows = result.is_contiguous() ? result : take(result.type);
    const Result<View> made = view_for(rows, {});
    if (!made) return made.error();
    arguments.result = *made;
    call.kernels.push_back(launch_of(kernel, arguments, result.type.elements(), reads, {rows.range()}));
    if (result.is_contiguous()) return Done{};
    Result<Launch> copy = OpWriter::launch_of_copy(rows, result);
    if (!copy) return copy.error();
    call.kernels.push_back(std::move(*copy));
    return Done{};
  }

  Seen take(const TensorType& type) {
    const Seen rows = seen_at(call.workspace + used, type);
    used += aligned(static_cast<std::size_t>(type.bytes()));
    return rows;
  }
};

Result<bool> AttentionDnn::write() {
  if (!writer_.plan_dnn) return false;
  if (Status status = see_operands(); !status) return status.error();
  const std::optional<AttentionBias> bias = mask_as_bias();
  Result<std::optional<DnnCall>> call = planned(attention_graph(arguments_, bias, heads_));
  if (!call) return call.error();
  if (!*call) return false;
  if (Status status = copy_others(); !status) return status.error();
  const Result<std::optional<Added>> added = add_mask(bias);
  if (!added) return added.error();
  Seen& result = writer_.results[0];
  if (!bias && has_strides(arguments_.query)) result.strides = strides_like(arguments_.query, result.type.shape);
  DnnCall& taken = **call;
  const Range statistics = statistics_at(writer_.keep_beside_result(kStatisticsOfScores, statistics_bytes()));
  give_operands(taken, *added, result.data, statistics);
  taken.tensors.emplace_back(kValue, memory_of(arguments_.value));
  AttentionArguments arguments = *added ? (*added)->arguments : arguments_;
  const Range probabilities = between(taken, 0);
  arguments.probabilities = numbers_in(probabilities);
  Rows rows{taken, aligned(probabilities.bytes)};
  for (const auto& [name, member] : kOperands) {
    if (writer_.operand(name) == nullptr) continue;
    if (Status status = rows.read(*writer_.operand(name), arguments.*member); !status) return status.error();
  }
  if (*added) rows.reads.push_back((*added)->numbers);
  taken.kernels.push_back(  // in the library's place nobody makes statistics, but their memory is taken
      launch_of(KernelId::attention_probabilities, arguments, arguments.rows, rows.reads, {probabilities, statistics}));
  rows.reads.push_back(probabilities);
  if (Status status = rows.make(KernelId::attention_result, arguments, result); !status) return status.error();
  writer_.add(std::move(taken));
  if (*added) {
    const Result<View> made = view_for(result, {});
    if (!made) return made.error();
    correct(**added, *made, arguments_.e, 0, result.range());
  }
  return true;
}

Result<bool> AttentionDnn::write_gradients(Seen* const (&gradients)[3]) {
  if (!writer_.plan_dnn) return false;
  if (Status status = see_operands(); !status) return status.error();
  const std::optional<AttentionBias> bias = mask_as_bias();
  std::byte* const kept = writer_.kept("output", kStatisticsOfScores);
  Result<std::optional<DnnCall>> forward = std::optional<DnnCall>(),
                                 backward = planned(attention_gradient_graph(arguments_, bias, heads_));
  if (kept == nullptr) forward = planned(attention_graph(arguments_, bias, heads_));
  if (!forward) return forward.error();
  if (!backward) return backward.error();
  if (!*backward || (kept == nullptr && !*forward)) return false;
  if (Status status = copy_others(); !status) return status.error();
  const Result<std::optional<Added>> added = add_mask(bias);
  if (!added) return added.error();
  const Range statistics = statistics_at(kept);
  if (*forward) {  // what it makes is there already
    give_operands(**forward, *added, writer_.scratch(bytes_of(*writer_.operand("output"))), statistics);
    (*forward)->tensors.emplace_back(kValue, memory_of(arguments_.value));
    writer_.add(std::move(**forward));
  }
  if (*added) {
    View view;  // a float for each query
    view.data = const_cast<std::byte*>(statistics.begin);
    correct(**added, view, 1, kNoWeight, statistics);
  }

  DnnCall& call = **backward;
  give_operands(call, *added, memory_of(arguments_.output), statistics);
  call.tensors.insert(call.tensors.end(), {{kKey, memory_of(arguments_.key)},
                                           {kTurnedValue, memory_of(arguments_.value)},
                                           {kGradient, memory_of(arguments_.gradient)}});
  // Kernels have no statistics: they read the mask itself.
  AttentionArguments arguments = arguments_;
  const Range probabilities = between(call, 0), slopes = between(call, 1);
  arguments.probabilities = numbers_in(probabilities);
  arguments.slopes = numbers_in(slopes);
  Rows rows{call, aligned(2 * slopes.bytes)};
  for (const auto& [name, member] : kOperands) {
    if (Status status = rows.read(*writer_.operand(name), arguments.*member); !status) return status.error();
  }
  if (const Seen* mask = writer_.operand("attn_mask")) rows.reads.push_back(mask->range());
  rows.reads.push_back(statistics);
  call.kernels.push_back(
      launch_of(KernelId::attention_probabilities, arguments, arguments.rows, rows.reads, {probabilities}));
  rows.reads.push_back(probabilities);
  call.kernels.push_back(launch_of(KernelId::attention_slopes, arguments, arguments.rows, rows.reads, {slopes}));
  rows.reads.push_back(slopes);
  constexpr KernelId kKernelOf[] = {KernelId::attention_query_gradient, KernelId::attention_key_gradient,
                                    KernelId::attention_value_gradient};
  constexpr std::int64_t kTensorOf[] = {kQueryGradient, kKeyGradient, kValueGradient};
  for (std::size_t i = 0; i < 3; ++i) {
    const Seen& operand = *writer_.operand(kOperands[i].name);
    if (gradients[i] == nullptr) {  // the library makes it all the same
      call.tensors.emplace_back(kTensorOf[i], writer_.scratch(bytes_of(operand)));
      continue;
    }
    Seen& result = *gradients[i];
    const View& view = arguments_.*kOperands[i].view;
    if (has_strides(view)) result.strides = strides_like(view, result.type.shape);
    call.tensors.emplace_back(kTensorOf[i], result.data);
    if (Status status = rows.make(kKernelOf[i], arguments, result); !status) return status.error();
  }
  writer_.add(std::move(call));
  return true;
}

}  // namespace meshwright::cuda
