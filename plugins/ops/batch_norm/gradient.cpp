#include "batch_norm.h"

namespace meshwright {

namespace {

class Emitter {
 public:
  explicit Emitter(const GradientCall& call)
      : call_(call), node_(call.node), input_(call.operand("input")), type_(call.type(input_)),
        channel_{type_.dtype, {type_.shape[1]}}, count_(type_.elements() / type_.shape[1]) {}

  std::vector<ValueId> run() {
    std::vector<ValueId> gradients(node_.operands.size(), kNoId);
    take_statistics();
    const auto wanted = [&](const char* name) {
      const auto index = node_.operand_index(name);
      return index && call_.wanted[*index];
    };
    const ValueId of_result = call_.result_gradients[0];
    std::vector<ValueId> sums = {kNoId, kNoId};
    if (of_result != kNoId && (trains(node_) || wanted("weight") || wanted("bias"))) {
      sums = call_.build.emit(kBackwardSums, {{"grad_output", of_result}, {"input", input_}, {"mean", mean_}, {"invstd", invstd_}},
                              {}, {channel_, channel_});
    }
    if (wanted("bias")) gradients[*node_.operand_index("bias")] = sums[0];
    if (wanted("weight")) gradients[*node_.operand_index("weight")] = sums[1];
    if (!wanted("input")) return gradients;
    if (of_result != kNoId) {
      std::vector<Operand> operands = {{"grad_output", of_result}, {"input", input_}, {"mean", mean_}, {"invstd", invstd_},
                                       {"weight", call_.operand("weight")}};
      if (trains(node_)) {
        operands.push_back({"sum", sums[0]});
        operands.push_back({"product", sums[1]});
      }
      gradients[0] = call_.build.emit(kBackwardInput, operands, {{"count", count_}}, type_);
    }
    if (trains(node_)) gradients[0] = plus(gradients[0], through_statistics());
    return gradients;
  }

 private:
  // What was normalized with: an evaluation has the running ones.
  void take_statistics() {
    if (trains(node_)) {
      mean_ = node_.results[1];
      invstd_ = node_.results[2];
      return;
    }
    mean_ = call_.operand("running_mean");
    const ValueId variance = call_.build.emit("aten.add.Tensor", {{"self", call_.operand("running_var")}},
                                              {{"other", node_.number("eps", 1e-5)}}, channel_);
    invstd_ = call_.build.emit("aten.rsqrt", {{"self", variance}}, {}, channel_);
  }

  ValueId multiply(ValueId a, ValueId b, const TensorType& type) {
    return call_.build.emit("aten.mul.Tensor", {{"self", a}, {"other", b}}, {}, type);
  }
  ValueId scale(ValueId a, double number) {
    if (a == kNoId) return a;
    return call_.build.emit("aten.mul.Tensor", {{"self", a}}, {{"other", number}}, call_.type(a));
  }
  ValueId plus(ValueId a, ValueId b) {
    if (a == kNoId || b == kNoId) return a == kNoId ? b : a;
    return call_.build.emit("aten.add.Tensor", {{"self", a}, {"other", b}}, {}, call_.type(a));
  }
  // A number for each channel, as it broadcasts against the input.
  ValueId spread(ValueId per_channel) {
    std::vector<std::int64_t> shape(type_.shape.size(), 1);
    shape[1] = type_.shape[1];
    return call_.build.emit("aten.view", {{"self", per_channel}}, {{"size", shape}}, TensorType{type_.dtype, shape});
  }

  // Where somebody differentiates the statistics: ∂mean/∂x = 1/count, ∂variance/∂x = 2(x − mean)/count. Models do not.
  ValueId through_statistics() {
    const double momentum = node_.number("momentum", 0.1), count = static_cast<double>(count_);
    const auto gradient = [&](std::size_t i) { return i < call_.result_gradients.size() ? call_.result_gradients[i] : kNoId; };
    const ValueId of_mean = plus(gradient(1), scale(gradient(3), momentum));
    ValueId of_variance = scale(gradient(4), momentum * count / (count - 1));
    if (gradient(2) != kNoId) {
      const ValueId cube = call_.build.emit("aten.pow.Tensor_Scalar", {{"self", invstd_}}, {{"exponent", std::int64_t{3}}}, channel_);
      of_variance = plus(of_variance, scale(multiply(gradient(2), cube, channel_), -0.5));
    }
    ValueId made = kNoId;
    if (of_variance != kNoId) {
      const ValueId centered = call_.build.emit("aten.sub.Tensor", {{"self", input_}, {"other", spread(mean_)}}, {}, type_);
      made = multiply(centered, spread(scale(of_variance, 2 / count)), type_);
    }
    if (of_mean == kNoId) return made;
    const ValueId share = call_.build.emit("aten.expand", {{"self", spread(scale(of_mean, 1 / count))}}, {{"size", type_.shape}}, type_);
    return plus(made, share);
  }

  const GradientCall& call_;
  const Node& node_;
  const ValueId input_;
  const TensorType type_, channel_;
  const std::int64_t count_;
  ValueId mean_ = kNoId, invstd_ = kNoId;
};

}  // namespace

Result<std::vector<ValueId>> batch_norm_gradient(const GradientCall& call) {
  if (!is_forward(call.node)) return bad_input("its op family states no gradient");
  if (overwrites(call.node)) return bad_input("it updates its running statistics in place");
  return Emitter(call).run();
}

}  // namespace meshwright
