// A convolution is trilinear: out[n, o, y] = Σ in[n, i, x] · kernel[o, i, k] over all x = y·stride − padding +
// k·dilation inside of the input. The gradient of each operand has the same terms, with the result's gradient in its
// place.
#include "convolution.h"
#include "numbers.h"

namespace meshwright {

namespace {

class Convolver {
 public:
  Convolver(const Node& node, const ConvolutionTypes& types) : types_(types), taps_(find_taps(node, types)) {}

  // Visits every term with its positions in output, input and kernel. Groups are those of these tensors, which may be
  // shards: as many as the kernel's input channels fit into the input's.
  template <class Visit>
  void for_each_term(Visit visit) const {
    const std::size_t inputs = to_size(types_.input.shape[1]), outputs = to_size(types_.output.shape[1]);
    const std::size_t own_inputs = to_size(types_.weight.shape[1]), own_outputs = outputs / (inputs / own_inputs);
    const std::size_t x = to_size(space_elements(types_.input)), y = to_size(space_elements(types_.output));
    const std::size_t k = to_size(space_elements(types_.weight));
    for (std::size_t n = 0; n < to_size(types_.input.shape[0]); ++n) {
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t i = 0; i < own_inputs; ++i) {
          const std::size_t output = (n * outputs + o) * y, kernel = (o * own_inputs + i) * k;
          const std::size_t input = (n * inputs + o / own_outputs * own_inputs + i) * x;
          for (const Tap& tap : taps_) visit(output + tap.y, input + tap.x, kernel + tap.k);
        }
      }
    }
  }

 private:
  ConvolutionTypes types_;
  std::vector<Tap> taps_;
};

}  // namespace

Result<std::vector<Tensor>> convolution_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Convolver convolver(call.node, convolution_types(call));
  const Numbers first = numbers_of(*operands[0]), second = numbers_of(*operands[1]);
  const auto input_gradient = [&](const Numbers& gradient, const Numbers& kernel, Numbers& result) {
    convolver.for_each_term([&](std::size_t out, std::size_t in, std::size_t k) { result[in] += gradient[out] * kernel[k]; });
  };
  const auto weight_gradient = [&](const Numbers& gradient, const Numbers& input, Numbers& result) {
    convolver.for_each_term([&](std::size_t out, std::size_t in, std::size_t k) { result[k] += gradient[out] * input[in]; });
  };
  if (call.node.op == kBackward) {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!gives_gradient(call.node, i)) continue;
      const TensorType& type = call.results[results.size()];
      Numbers result = zeros(type);
      if (i == 0) input_gradient(first, numbers_of(*operands[2]), result);
      if (i == 1) weight_gradient(first, second, result);
      const std::size_t positions = to_size(space_elements(call.operands[0]));
      for (std::size_t at = 0; i == 2 && at < first.size(); ++at) result[at / positions % result.size()] += first[at];
      results.push_back(written(call.result(results.size()), result));
    }
    return results;
  }
  const TensorType& type = call.results[0];
  Numbers result = zeros(type);
  if (call.node.op == kInputGradient || (is_transposed(call.node) && call.node.op != kWeightGradient)) {
    input_gradient(first, second, result);
  } else if (call.node.op == kWeightGradient) {
    weight_gradient(first, second, result);
  } else {
    convolver.for_each_term(
        [&](std::size_t out, std::size_t in, std::size_t k) { result[out] += first[in] * second[k]; });
  }
  const std::int64_t channels = type.shape[1], positions = space_elements(type);
  for (std::int64_t i = 0; operands.size() > 2 && i < type.elements(); ++i) {
    result[to_size(i)] += operands[2]->get(i / positions % channels);
  }
  return listed(written(call.result(0), result));
}

}  // namespace meshwright
