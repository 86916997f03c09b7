#include "dnn_convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cudnn_backend.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

using NumberList = std::vector<std::int64_t>;

// Behind the last element: as before the first one, if the output's size is what that makes; nothing: no padding does.
std::optional<std::int64_t> padding_behind(const ConvolutionArguments& a, std::size_t d) {
  const std::int64_t taken = a.dilation[d] * (a.k[d] - 1) + 1;
  for (const std::int64_t behind :
       {a.padding[d], (a.y[d] - 1) * a.stride[d] + taken - a.x[d] - a.padding[d], std::int64_t{0}}) {
    const std::int64_t left = a.x[d] + a.padding[d] + behind - taken;
    if (behind >= 0 && left >= 0 && left / a.stride[d] + 1 == a.y[d]) return behind;
  }
  return std::nullopt;
}

// cuDNN has two dimensions of space or three.
bool is_flat(const ConvolutionArguments& a) { return a.x[0] == 1 && a.k[0] == 1 && a.y[0] == 1 && a.padding[0] == 0; }

std::string text_of(const NumberList& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "×") + std::to_string(size);
  return text;
}

// An operation's kind, and its attributes for what they are made of, in the order below.
struct Fields {
  const char* name;
  int kind, convolution, input, weight, output, alpha, beta;
};

Fields fields_of(KernelId kernel) {
  using namespace cudnn;
  if (kernel == KernelId::convolution_input)
    return {"the gradient of the input of a convolution",
            kConvolutionInput,
            kInputConvolution,
            kInputInput,
            kInputWeight,
            kInputOutput,
            kInputAlpha,
            kInputBeta};
  if (kernel == KernelId::convolution_weight)
    return {"the gradient of the weight of a convolution",
            kConvolutionWeight,
            kWeightConvolution,
            kWeightInput,
            kWeightWeight,
            kWeightOutput,
            kWeightAlpha,
            kWeightBeta};
  return {"a convolution", kConvolutionForward, kForwardConvolution, kForwardInput,
          kForwardWeight,  kForwardOutput,      kForwardAlpha,       kForwardBeta};
}

}  // namespace

std::optional<DnnGraph> convolution_graph(const ConvolutionArguments& a, KernelId kernel) {
  const Element element = a.input.element;
  if (!is_single(element) || a.weight.element != element || a.output.element != element) return std::nullopt;
  const auto dtype = static_cast<DType>(element);
  const std::size_t first = is_flat(a) ? 1 : 0;
  NumberList before, behind, dilations, strides;
  NumberList input{a.batch, a.inputs}, weight{a.outputs, a.group_inputs}, output{a.batch, a.outputs};
  for (std::size_t d = first; d < kSpace; ++d) {
    const std::optional<std::int64_t> padding = padding_behind(a, d);
    if (!padding) return std::nullopt;
    before.push_back(a.padding[d]);
    behind.push_back(*padding);
    dilations.push_back(a.dilation[d]);
    strides.push_back(a.stride[d]);
    input.push_back(a.x[d]);
    weight.push_back(a.k[d]);
    output.push_back(a.y[d]);
  }
  for (const NumberList* sizes : {&input, &weight, &output}) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (std::ranges::min(*sizes) < 1 || std::ranges::max(*sizes) > kMost) return std::nullopt;
  }
  const Fields fields = fields_of(kernel);
  const std::int64_t alignment =
      std::min({alignment_of(a.input.data), alignment_of(a.weight.data), alignment_of(a.output.data)});
  DnnGraph graph;
  graph.name = std::string(fields.name) + " of " + text_of(input) + " by " + text_of(weight) +
               (dtype == DType::bfloat16 ? " in bfloat16" : "");
  graph.factors = dtype;
  graph.descriptors = {
      dnn_tensor(kDnnInput, dtype, input, alignment),
      dnn_tensor(kDnnWeight, dtype, weight, alignment),
      dnn_tensor(kDnnOutput, dtype, output, alignment),
      {cudnn::kConvolution,
       {dnn_numbers(cudnn::kSpatialDimensions, {static_cast<std::int64_t>(before.size())}),
        dnn_enumerator(cudnn::kConvolutionType, cudnn::kOfDataType, cudnn::kFloat),
        dnn_enumerator(cudnn::kConvolutionMode, cudnn::kOfConvolutionMode, cudnn::kCrossCorrelation),
        dnn_numbers(cudnn::kPrePaddings, before), dnn_numbers(cudnn::kPostPaddings, behind),
        dnn_numbers(cudnn::kDilations, dilations), dnn_numbers(cudnn::kStrides, strides)}},
      {fields.kind,
       {dnn_descriptor(fields.convolution, 3), dnn_descriptor(fields.input, 0), dnn_descriptor(fields.weight, 1),
        dnn_descriptor(fields.output, 2), dnn_float(fields.alpha, 1), dnn_float(fields.beta, 0)}}};
  graph.operations = {graph.descriptors.size() - 1};
  return graph;
}

}  // namespace meshwright::cuda
