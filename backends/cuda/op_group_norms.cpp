// Group norm, and instance norm, which has a group for each channel; forward and backward.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/group_norms.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kBackward = "meshwright.group_norm_backward";
constexpr std::string_view kNative = "aten.native_group_norm";
constexpr std::string_view kNativeBackward = "aten.native_group_norm_backward";
constexpr std::string_view kInstance = "aten.instance_norm";

std::int64_t groups_of(const Node& node, std::int64_t channels) {
  if (node.op == kInstance) return channels;
  return node.integer(node.op == kNative || node.op == kNativeBackward ? "group" : "num_groups", 1);
}

Status write_group_norm(OpWriter& writer) {
  const Node& node = writer.call.node;
  if (node.op == kInstance && !node.boolean("use_input_stats", true))
    return bad_input("cuda has no kernel for an instance norm by running statistics");
  GroupNormArguments a;
  std::vector<Range> reads;
  const std::pair<const char*, View*> named[] = {
      {"input", &a.input},       {"weight", &a.weight}, {"bias", &a.bias},     {"grad_output", &a.gradient},
      {"grad_out", &a.gradient}, {"mean", &a.mean},     {"rstd", &a.deviation}};
  if (Status status = writer.view_in_rows(named, reads); !status) return status;
  const TensorType& input = writer.operand("input")->type;
  if (input.elements() == 0) return bad_input("cuda has no kernel for a group norm of nothing");
  a.batch = input.shape[0];
  a.channels = input.shape[1];
  a.space = input.elements() / a.batch / a.channels;
  a.groups = a.batch * groups_of(node, a.channels);
  a.extent = input.elements() / a.groups;
  a.epsilon = node.number("eps", 1e-5);
  const bool given = a.mean.data != nullptr;
  const TensorType by_group{DType::float64, {a.groups}};
  Seen mean, deviation;
  if (!given) {
    mean = writer.in_scratch(by_group);
    deviation = writer.in_scratch(by_group);
    a.mean = *view_for(mean, {});
    a.deviation = *view_for(deviation, {});
    writer.launch(KernelId::group_norm_statistics, a, a.groups, reads, {mean.range(), deviation.range()});
    reads.push_back(mean.range());
    reads.push_back(deviation.range());
  }
  const auto write = [&](KernelId kernel, const Seen& result, std::int64_t count) -> Status {
    const Result<View> view = view_for(result, {});
    if (!view) return view.error();
    a.result = *view;
    writer.launch(kernel, a, count, reads, {result.range()});
    return Done{};
  };
  if (node.op == kBackward || node.op == kNativeBackward) {
    const std::vector<std::int64_t> mask = node.integers("output_mask");
    std::size_t next = 0;
    for (std::size_t i = 0; i < 3 && next < writer.results.size(); ++i) {
      if (mask.size() > i && mask[i] == 0) continue;
      a.of_weight = i == 1;
      const Seen& made = writer.results[next++];
      Status status = i == 0 ? write(KernelId::group_norm_input_gradient, made, a.groups)
                             : write(KernelId::group_norm_channel_gradient, made, a.channels);
      if (!status) return status;
    }
    return Done{};
  }
  if (Status status = write(KernelId::group_norm_apply, writer.results[0], input.elements()); !status) return status;
  for (std::size_t i = 1; i < writer.results.size() && i < 3; ++i) {
    const Seen saved = seen_at(writer.results[i].data, {writer.results[i].type.dtype, by_group.shape});
    if (Status status = writer.copy(i == 1 ? mean : deviation, saved); !status) return status;
  }
  return Done{};
}

constexpr std::string_view kGroupNorms[] = {"aten.group_norm", kNative, kInstance, kBackward, kNativeBackward};

}  // namespace

WriteOp group_norm_op(std::string_view op) {
  return std::ranges::find(kGroupNorms, op) != std::end(kGroupNorms) ? write_group_norm : nullptr;
}

}  // namespace meshwright::cuda
