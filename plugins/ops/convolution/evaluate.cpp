// A convolution is trilinear: out[n, o, y] = Σ in[n, i, x] · kernel[o, i, k] over all x = y·stride − padding +
// k·dilation inside of the input. The gradient of each operand has the same terms, with the result's gradient in its
// place.
#include "convolution.h"
#include "numbers.h"

namespace meshwright {

namespace {

std::int64_t space_elements(const TensorType& type) {
  std::int64_t count = 1;
  for (std::size_t i = 2; i < type.shape.size(); ++i) count *= type.shape[i];
  return count;
}

// Positions that meet, within one channel of each tensor: output[y] takes input[x] times kernel[k].
struct Tap {
  std::size_t y, x, k;
};

// One number for each dimension of space; a list of one stands for all.
std::vector<std::int64_t> spread(std::vector<std::int64_t> list, std::size_t space, std::int64_t otherwise) {
  if (list.empty()) list.push_back(otherwise);
  if (list.size() == 1) list.assign(space, list[0]);
  return list;
}

class Convolver {
 public:
  Convolver(const Node& node, const ConvolutionTypes& types) : types_(types) {
    const std::size_t space = types.input.shape.size() - 2;
    const std::vector<std::int64_t> stride = spread(node.integers("stride"), space, 1);
    const std::vector<std::int64_t> dilation = spread(node.integers("dilation"), space, 1);
    std::vector<std::int64_t> padding = spread(node.integers("padding"), space, 0);
    for (std::size_t d = 0; d < space && node.text("padding", "valid") == "same"; ++d) {
      padding[d] = dilation[d] * (types.weight.shape[d + 2] - 1) / 2;  // an odd one goes behind
    }
    find_taps(stride, padding, dilation);
  }

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
  void find_taps(const std::vector<std::int64_t>& stride, const std::vector<std::int64_t>& padding,
                 const std::vector<std::int64_t>& dilation) {
    const std::size_t space = stride.size();
    const std::vector<std::int64_t> y_strides =
        strides_of({types_.output.shape.begin() + 2, types_.output.shape.end()});
    const std::vector<std::int64_t> k_strides =
        strides_of({types_.weight.shape.begin() + 2, types_.weight.shape.end()});
    for (std::int64_t y = 0; y < space_elements(types_.output); ++y) {
      for (std::int64_t k = 0; k < space_elements(types_.weight); ++k) {
        std::int64_t x = 0, y_rest = y, k_rest = k;
        bool inside = true;
        for (std::size_t d = 0; d < space; ++d) {
          const std::int64_t at = y_rest / y_strides[d] * stride[d] - padding[d] + k_rest / k_strides[d] * dilation[d];
          inside &= at >= 0 && at < types_.input.shape[d + 2];
          x = x * types_.input.shape[d + 2] + at;
          y_rest %= y_strides[d];
          k_rest %= k_strides[d];
        }
        if (inside) taps_.push_back({to_size(y), to_size(x), to_size(k)});
      }
    }
  }

  ConvolutionTypes types_;
  std::vector<Tap> taps_;
};

}  // namespace

Result<std::vector<Tensor>> convolution_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (call.node.boolean("transposed", false)) return bad_input("transposed convolutions are not supported");
  const Convolver convolver(call.node, convolution_types(call));
  const Numbers first = numbers_of(*operands[0]), second = numbers_of(*operands[1]);
  const TensorType& type = call.results[0];
  Numbers result = zeros(type);
  if (call.node.op == kInputGradient) {
    convolver.for_each_term(
        [&](std::size_t out, std::size_t in, std::size_t k) { result[in] += first[out] * second[k]; });
  } else if (call.node.op == kWeightGradient) {
    convolver.for_each_term(
        [&](std::size_t out, std::size_t in, std::size_t k) { result[k] += first[out] * second[in]; });
  } else {
    convolver.for_each_term(
        [&](std::size_t out, std::size_t in, std::size_t k) { result[out] += first[in] * second[k]; });
    const std::int64_t channels = type.shape[1], positions = space_elements(type);
    for (std::int64_t i = 0; operands.size() > 2 && i < type.elements(); ++i) {
      result[to_size(i)] += operands[2]->get(i / positions % channels);
    }
  }
  return std::vector<Tensor>{tensor_of(type, result)};
}

}  // namespace meshwright
