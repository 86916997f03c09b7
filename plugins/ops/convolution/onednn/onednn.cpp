// Convolutions in float32 as matrix products, one for each sample and group: the kernel, output channels by taps, times
// the input's columns, taps by output positions (K. Chellapilla et al., "High performance convolutional neural networks
// for document processing", 2006). Everything else is left to the family.
#include "onednn.h"

#include <algorithm>

#include "../geometry.h"
#include "gemm.h"
#include "meshwright/plugin.h"
#include "numbers.h"

namespace meshwright {

namespace {

constexpr const char* kServes[] = {"reference:aten.conv2d",
                                   "reference:aten.conv1d",
                                   "reference:aten.conv2d.padding",
                                   "reference:aten.conv1d.padding",
                                   "reference:aten.convolution",
                                   "reference:meshwright.convolution_backward_input",
                                   "reference:meshwright.convolution_backward_weight",
                                   "mpi:aten.conv2d",
                                   "mpi:aten.conv1d",
                                   "mpi:aten.conv2d.padding",
                                   "mpi:aten.conv1d.padding",
                                   "mpi:aten.convolution",
                                   "mpi:meshwright.convolution_backward_input",
                                   "mpi:meshwright.convolution_backward_weight",
                                   nullptr};

// The three tensors of a convolution, one of which is computed.
class Product {
 public:
  Product(const Node& node, const ConvolutionTypes& types)
      : samples_(types.input.shape[0]),
        // As many groups as the kernel's input channels fit into the input's: these tensors may be shards.
        groups_(types.input.shape[1] / types.weight.shape[1]),
        inputs_(types.weight.shape[1]),
        outputs_(types.output.shape[1] / groups_),
        x_(space_elements(types.input)),
        y_(space_elements(types.output)),
        k_(space_elements(types.weight)),
        taps_(find_taps(node, types)),
        columns_(to_size(inputs_ * k_ * y_)) {}

  bool forward(const float* input, const float* weight, float* output) {
    return for_each_part([&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
      gather(input + in);
      return gemm({.m = outputs_, .n = y_, .k = inputs_ * k_}, weight + kernel, columns_.data(), output + out);
    });
  }

  bool input_gradient(const float* gradient, const float* weight, float* input) {
    return for_each_part([&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
      const Gemm size{.m = inputs_ * k_, .n = y_, .k = outputs_, .transpose_a = true};
      if (!gemm(size, weight + kernel, gradient + out, columns_.data())) return false;
      scatter(input + in);
      return true;
    });
  }

  bool weight_gradient(const float* gradient, const float* input, float* weight) {
    return for_each_part([&](std::int64_t in, std::int64_t out, std::int64_t kernel) {
      gather(input + in);
      const Gemm size{.m = outputs_, .n = inputs_ * k_, .k = y_, .transpose_b = true, .beta = 1};
      return gemm(size, gradient + out, columns_.data(), weight + kernel);
    });
  }

 private:
  // Calls with the positions in input, output and kernel where the channels of each sample and group begin.
  template <class Body>
  bool for_each_part(Body body) {
    for (std::int64_t sample = 0; sample < samples_; ++sample) {
      for (std::int64_t group = 0; group < groups_; ++group) {
        const std::int64_t part = sample * groups_ + group;
        if (!body(part * inputs_ * x_, part * outputs_ * y_, group * outputs_ * inputs_ * k_)) return false;
      }
    }
    return true;
  }

  // Where the padding is, no tap is, and the columns stay zero.
  void gather(const float* input) {
    for (std::int64_t i = 0; i < inputs_; ++i) {
      float* columns = columns_.data() + i * k_ * y_;
      for (const Tap& tap : taps_)
        columns[tap.k * to_size(y_) + tap.y] = input[i * x_ + static_cast<std::int64_t>(tap.x)];
    }
  }

  void scatter(float* input) const {
    for (std::int64_t i = 0; i < inputs_; ++i) {
      const float* columns = columns_.data() + i * k_ * y_;
      for (const Tap& tap : taps_)
        input[i * x_ + static_cast<std::int64_t>(tap.x)] += columns[tap.k * to_size(y_) + tap.y];
    }
  }

  std::int64_t samples_, groups_, inputs_, outputs_;  // channels of one group
  std::int64_t x_, y_, k_;                            // positions in one channel of input, output and kernel
  std::vector<Tap> taps_;
  std::vector<float> columns_;
};

void add_bias(Tensor& out, const Tensor& bias) {
  const std::size_t positions = to_size(space_elements(out.type())), channels = to_size(out.shape()[1]);
  const std::span<float> target = out.as<float>();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] += bias.as<float>()[i / positions % channels];
}

}  // namespace

Result<std::vector<Tensor>> OnednnConvolution::do_compute(const OpCall& call,
                                                          std::span<const Tensor* const> operands) const {
  const auto is_float = [](const TensorType& type) { return type.dtype == DType::float32; };
  if (!std::ranges::all_of(call.operands, is_float) || !is_float(call.results[0])) return std::vector<Tensor>{};
  if (call.node.boolean("transposed", false)) return std::vector<Tensor>{};
  Tensor out = call.zeros(0);
  Product product(call.node, convolution_types(call));
  const float *first = operands[0]->as<float>().data(), *second = operands[1]->as<float>().data();
  float* result = out.as<float>().data();
  const bool done = call.node.op == kInputGradient    ? product.input_gradient(first, second, result)
                    : call.node.op == kWeightGradient ? product.weight_gradient(first, second, result)
                                                      : product.forward(first, second, result);
  if (!done) return internal_error("oneDNN refuses this product");
  if (operands.size() > 2) add_bias(out, *operands[2]);
  std::vector<Tensor> results;
  results.push_back(std::move(out));
  return results;
}

MESHWRIGHT_PLUGIN("kernels", "onednn_convolution", "0.1.0", "Apache-2.0",
                  "Convolutions as matrix products by oneDNN, in float32", kServes, nullptr, 0,
                  (create_plugin<OpKernels, OnednnConvolution>), destroy_plugin<OpKernels>)

}  // namespace meshwright
