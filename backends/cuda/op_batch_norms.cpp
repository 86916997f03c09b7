// Batch norm, in training and with statistics that are given, whole and in the steps that it is cut into where what it
// sums over is sharded.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/batch_norms.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

class BatchNormWriter {
 public:
  explicit BatchNormWriter(OpWriter& writer) : writer_(writer), node_(writer.call.node) {}

  // Takes what the call has of these.
  Status begin() {
    const std::pair<const char*, View*> named[] = {
        {"input", &arguments_.input},
        {"grad_output", &arguments_.gradient},
        {"weight", &arguments_.weight},
        {"bias", &arguments_.bias},
        {"mean", &arguments_.mean},
        {"variance", &arguments_.variance},
        {"invstd", &arguments_.deviation},
        {"sum", &arguments_.sum},
        {"product", &arguments_.product},
        {"running_mean", &arguments_.running_mean},
        {"running_var", &arguments_.running_variance},
    };
    if (Status status = writer_.view_in_rows(named, reads_); !status) return status;
    const TensorType& input = writer_.operand("input")->type;
    arguments_.batch = input.shape[0];
    arguments_.channels = input.shape[1];
    const std::int64_t planes = arguments_.batch * arguments_.channels;
    if (input.elements() == 0) return bad_input("cuda has no kernel for a batch norm of nothing");
    arguments_.space = input.elements() / planes;
    arguments_.count = node_.number("count", static_cast<double>(input.elements() / arguments_.channels));
    arguments_.epsilon = node_.number("eps", 1e-5);
    return Done{};
  }

  // Its first result is the kernel's.
  Status write(KernelId kernel, std::int64_t count) {
    if (Status status = set(writer_.results[0], arguments_.result); !status) return status;
    writer_.launch(kernel, arguments_, count, reads_, {writer_.results[0].range()});
    return Done{};
  }

  Status write_sums() {
    if (Status status = set(writer_.results[0], arguments_.sum); !status) return status;
    if (Status status = set(writer_.results[1], arguments_.product); !status) return status;
    writer_.launch(KernelId::batch_norm_gradient_sums, arguments_, arguments_.channels, reads_,
                   {writer_.results[0].range(), writer_.results[1].range()});
    return Done{};
  }

  // A statistic of this rank's own in scratch, in doubles, which those behind it read.
  void write_statistic(KernelId kernel, View& view) {
    const std::size_t bytes = static_cast<std::size_t>(arguments_.channels) * sizeof(double);
    std::byte* memory = writer_.scratch(bytes);
    BatchNormArguments arguments = arguments_;
    arguments.result.data = memory;
    arguments.result.element = Element::float64;
    writer_.launch(kernel, arguments, arguments.channels, reads_, {{memory, bytes}});
    view = arguments.result;
    reads_.push_back({memory, bytes});
  }

  Status write_forward() {
    const bool trains = node_.op != "aten._native_batch_norm_legit_no_training" && node_.boolean("training", true);
    if (trains && (node_.op == "aten._native_batch_norm_legit" || node_.op == "aten.batch_norm"))
      return bad_input("cuda has no kernel for " + node_.op + " in training, which overwrites its running statistics");
    if (trains && arguments_.mean.data == nullptr) {
      write_statistic(KernelId::batch_norm_mean, arguments_.mean);
      write_statistic(KernelId::batch_norm_variance, arguments_.variance);
    } else if (!trains) {
      arguments_.mean = arguments_.running_mean;
      arguments_.variance = arguments_.running_variance;
    }
    arguments_.share = trains ? node_.number("momentum", 0.1) : 0;
    if (Status status = write(KernelId::batch_norm_apply, writer_.results[0].type.elements()); !status) return status;
    return write_saved();
  }

  [[nodiscard]] std::int64_t channels() const { return arguments_.channels; }

 private:
  static Status set(const Seen& tensor, View& view) {
    const Result<View> made = view_for(tensor, {});
    if (!made) return made.error();
    view = *made;
    return Done{};
  }

  Status write_saved() {
    View* const views[] = {&arguments_.result, &arguments_.new_mean, &arguments_.new_deviation,
                           &arguments_.new_running_mean, &arguments_.new_running_variance};
    std::vector<Range> writes;
    for (std::size_t i = 1; i < writer_.results.size(); ++i) {
      if (writer_.results[i].type.elements() == 0) continue;  // an evaluation saves no statistics
      if (Status status = set(writer_.results[i], *views[i]); !status) return status;
      writes.push_back(writer_.results[i].range());
    }
    if (!writes.empty())
      writer_.launch(KernelId::batch_norm_saved, arguments_, arguments_.channels, reads_, std::move(writes));
    return Done{};
  }

  OpWriter& writer_;
  const Node& node_;
  BatchNormArguments arguments_;
  std::vector<Range> reads_;
};

Status write_batch_norm(OpWriter& writer) {
  BatchNormWriter norm(writer);
  if (Status status = norm.begin(); !status) return status;
  const std::string& op = writer.call.node.op;
  if (op == "meshwright.batch_norm_mean") return norm.write(KernelId::batch_norm_mean, norm.channels());
  if (op == "meshwright.batch_norm_variance") return norm.write(KernelId::batch_norm_variance, norm.channels());
  if (op == "meshwright.batch_norm_backward_sums") return norm.write_sums();
  if (op == "meshwright.batch_norm_backward_input")
    return norm.write(KernelId::batch_norm_input_gradient, writer.results[0].type.elements());
  return norm.write_forward();
}

constexpr std::string_view kBatchNorms[] = {"aten._native_batch_norm_legit_functional",
                                            "aten._native_batch_norm_legit_no_training",
                                            "aten._native_batch_norm_legit.no_stats",
                                            "aten._native_batch_norm_legit",
                                            "aten.batch_norm",
                                            "meshwright.batch_norm_backward_sums",
                                            "meshwright.batch_norm_backward_input",
                                            "meshwright.batch_norm_mean",
                                            "meshwright.batch_norm_variance",
                                            "meshwright.batch_norm_apply"};

}  // namespace

WriteOp batch_norm_op(std::string_view op) {
  return std::ranges::find(kBatchNorms, op) != std::end(kBatchNorms) ? write_batch_norm : nullptr;
}

}  // namespace meshwright::cuda
