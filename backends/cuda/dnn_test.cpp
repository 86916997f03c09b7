// Convolutions as cuDNN is asked for them: read as its manual says against this backend's own kernels, and planned by
// cuDNN itself for a GPU that need not be there, where the machine has the library.
#include "dnn.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "cudnn_backend.h"
#include "dnn_convolution.h"
#include "dnn_reading.h"
#include "loaded_dnn.h"

#ifdef MESHWRIGHT_CUDNN_HEADER
#include <cudnn.h>

namespace meshwright::cuda::cudnn {

static_assert(kFloat == CUDNN_DATA_FLOAT && kBFloat16 == CUDNN_DATA_BFLOAT16 &&
              kCrossCorrelation == CUDNN_CROSS_CORRELATION && kFast == CUDNN_HEUR_MODE_A &&
              kFallback == CUDNN_HEUR_MODE_FALLBACK);
static_assert(kConvolution == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR && kEngine == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
              kEngineConfig == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
              kEngineHeuristics == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
              kExecutionPlan == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
              kConvolutionForward == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
              kConvolutionWeight == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR &&
              kConvolutionInput == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR &&
              kOperationGraph == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
              kVariantPack == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && kTensor == CUDNN_BACKEND_TENSOR_DESCRIPTOR);
static_assert(kOfHandle == CUDNN_TYPE_HANDLE && kOfDataType == CUDNN_TYPE_DATA_TYPE && kOfInt64 == CUDNN_TYPE_INT64 &&
              kOfFloat == CUDNN_TYPE_FLOAT && kOfPointer == CUDNN_TYPE_VOID_PTR &&
              kOfConvolutionMode == CUDNN_TYPE_CONVOLUTION_MODE && kOfHeuristicsMode == CUDNN_TYPE_HEUR_MODE &&
              kOfNumericalNote == CUDNN_TYPE_NUMERICAL_NOTE && kOfDescriptor == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
              kOfChar == CUDNN_TYPE_CHAR);
static_assert(kConvolutionType == CUDNN_ATTR_CONVOLUTION_COMP_TYPE &&
              kConvolutionMode == CUDNN_ATTR_CONVOLUTION_CONV_MODE && kDilations == CUDNN_ATTR_CONVOLUTION_DILATIONS &&
              kStrides == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES &&
              kPostPaddings == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS &&
              kPrePaddings == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS &&
              kSpatialDimensions == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
static_assert(kHeuristicsMode == CUDNN_ATTR_ENGINEHEUR_MODE &&
              kHeuristicsGraph == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH &&
              kHeuristicsResults == CUDNN_ATTR_ENGINEHEUR_RESULTS && kConfigEngine == CUDNN_ATTR_ENGINECFG_ENGINE &&
              kPlanConfig == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG &&
              kPlanWorkspace == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
static_assert(kForwardAlpha == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA &&
              kForwardBeta == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA &&
              kForwardConvolution == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC &&
              kForwardWeight == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W &&
              kForwardInput == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X &&
              kForwardOutput == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
static_assert(kInputAlpha == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA &&
              kInputBeta == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA &&
              kInputConvolution == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC &&
              kInputWeight == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W &&
              kInputInput == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX &&
              kInputOutput == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
static_assert(kWeightAlpha == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA &&
              kWeightBeta == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA &&
              kWeightConvolution == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC &&
              kWeightWeight == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW &&
              kWeightInput == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X &&
              kWeightOutput == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
static_assert(kGraphOperations == CUDNN_ATTR_OPERATIONGRAPH_OPS && kTensorType == CUDNN_ATTR_TENSOR_DATA_TYPE &&
              kTensorAlignment == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && kTensorSizes == CUDNN_ATTR_TENSOR_DIMENSIONS &&
              kTensorStrides == CUDNN_ATTR_TENSOR_STRIDES && kTensorId == CUDNN_ATTR_TENSOR_UNIQUE_ID);
static_assert(kInt32 == CUDNN_DATA_INT32 && kBoolean == CUDNN_DATA_BOOLEAN && kOfFlag == CUDNN_TYPE_BOOLEAN &&
              kOfPointwiseMode == CUDNN_TYPE_POINTWISE_MODE && kOfReduction == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
static_assert(kPointwise == CUDNN_BACKEND_POINTWISE_DESCRIPTOR &&
              kPointwiseOperation == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
              kProduct == CUDNN_BACKEND_MATMUL_DESCRIPTOR &&
              kProductOperation == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
              kReduction == CUDNN_BACKEND_REDUCTION_DESCRIPTOR &&
              kReductionOperation == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR &&
              kReshapeOperation == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
static_assert(kPointwiseMode == CUDNN_ATTR_POINTWISE_MODE && kPointwiseType == CUDNN_ATTR_POINTWISE_MATH_PREC &&
              kPointwiseAxis == CUDNN_ATTR_POINTWISE_AXIS &&
              kPointwiseWhat == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR &&
              kPointwiseX == CUDNN_ATTR_OPERATION_POINTWISE_XDESC &&
              kPointwiseB == CUDNN_ATTR_OPERATION_POINTWISE_BDESC &&
              kPointwiseY == CUDNN_ATTR_OPERATION_POINTWISE_YDESC &&
              kPointwiseT == CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
static_assert(kProductType == CUDNN_ATTR_MATMUL_COMP_TYPE && kProductA == CUDNN_ATTR_OPERATION_MATMUL_ADESC &&
              kProductB == CUDNN_ATTR_OPERATION_MATMUL_BDESC && kProductC == CUDNN_ATTR_OPERATION_MATMUL_CDESC &&
              kProductWhat == CUDNN_ATTR_OPERATION_MATMUL_DESC);
static_assert(kReductionOperator == CUDNN_ATTR_REDUCTION_OPERATOR && kReductionType == CUDNN_ATTR_REDUCTION_COMP_TYPE &&
              kReductionX == CUDNN_ATTR_OPERATION_REDUCTION_XDESC &&
              kReductionY == CUDNN_ATTR_OPERATION_REDUCTION_YDESC &&
              kReductionWhat == CUDNN_ATTR_OPERATION_REDUCTION_DESC &&
              kReshapeX == CUDNN_ATTR_OPERATION_RESHAPE_XDESC && kReshapeY == CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
static_assert(kTensorIsVirtual == CUDNN_ATTR_TENSOR_IS_VIRTUAL && kTensorIsByValue == CUDNN_ATTR_TENSOR_IS_BY_VALUE);
static_assert(kAdd == CUDNN_POINTWISE_ADD && kMultiply == CUDNN_POINTWISE_MUL && kDivide == CUDNN_POINTWISE_DIV &&
              kSubtract == CUDNN_POINTWISE_SUB && kExponential == CUDNN_POINTWISE_EXP &&
              kLogarithm == CUDNN_POINTWISE_LOG && kNotLess == CUDNN_POINTWISE_CMP_GE &&
              kIndex == CUDNN_POINTWISE_GEN_INDEX && kSelect == CUDNN_POINTWISE_BINARY_SELECT &&
              kSum == CUDNN_REDUCE_TENSOR_ADD && kMaximum == CUDNN_REDUCE_TENSOR_MAX);
static_assert(kPackIds == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS &&
              kPackPointers == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS &&
              kPackWorkspace == CUDNN_ATTR_VARIANT_PACK_WORKSPACE && kEngineNotes == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(kTensorCore == CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
              kDownConvertsInputs == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS &&
              kReducesInLess == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
              kNondeterministic == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && kNotes == CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
static_assert(is_not_supported(CUDNN_STATUS_NOT_SUPPORTED) && !is_not_supported(CUDNN_STATUS_BAD_PARAM) &&
              !is_not_supported(CUDNN_STATUS_INTERNAL_ERROR));
#if CUDNN_VERSION >= 90800
static_assert(kDeviceProperties == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR &&
              kDeviceText == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION &&
              kHeuristicsDevice == CUDNN_ATTR_ENGINEHEUR_DEVICEPROP &&
              kPlanDevice == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
#endif

}  // namespace meshwright::cuda::cudnn
#endif

namespace meshwright::cuda {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr KernelId kKernels[] = {KernelId::convolution_output, KernelId::convolution_input,
                                 KernelId::convolution_weight};

// A convolution of one to three dimensions of space, that is drawn.
struct Drawn {
  ConvolutionArguments arguments;
  std::map<std::int64_t, std::vector<std::byte>> memory;  // by id

  void take(std::int64_t id, View& view, std::int64_t elements, Element element) {
    view.element = element;
    std::vector<std::byte>& bytes = memory[id];
    bytes.resize(static_cast<std::size_t>(elements * 4));
    view.data = bytes.data();
    for (std::int64_t i = 0; i < elements; ++i)
      store(bytes.data(), element, i, static_cast<double>((7 * i + id) % 5) - 2);  // whole, so that sums are exact
  }
};

Drawn draw(std::mt19937& random, Element element) {
  const auto from = [&](std::int64_t first, std::int64_t count) {
    return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
  };
  Drawn drawn;
  ConvolutionArguments& a = drawn.arguments;
  const std::int64_t groups = from(1, 2), space = from(1, 3);
  a.batch = from(1, 3);
  a.group_inputs = from(1, 3);
  a.group_outputs = from(1, 3);
  a.inputs = groups * a.group_inputs;
  a.outputs = groups * a.group_outputs;
  for (int d = 0; d < kSpace; ++d) {
    a.x[d] = a.y[d] = a.k[d] = a.stride[d] = a.dilation[d] = 1;
    a.padding[d] = 0;
    if (d < kSpace - space) continue;
    a.k[d] = from(1, 3);
    a.stride[d] = from(1, 2);
    a.dilation[d] = from(1, 2);
    a.padding[d] = from(0, 2);
    a.x[d] = a.dilation[d] * (a.k[d] - 1) + from(1, 5);
    const std::int64_t behind = from(0, 3) == 0 ? a.padding[d] + 1 : a.padding[d];
    a.y[d] = (a.x[d] + a.padding[d] + behind - a.dilation[d] * (a.k[d] - 1) - 1) / a.stride[d] + 1;
  }
  drawn.take(kDnnInput, a.input, a.batch * a.inputs * volume_of(a.x), element);
  drawn.take(kDnnWeight, a.weight, a.outputs * a.group_inputs * volume_of(a.k), element);
  drawn.take(kDnnOutput, a.output, a.batch * a.outputs * volume_of(a.y), element);
  return drawn;
}

// A graph as cuDNN's manual reads it, on the host.
class Reader {
 public:
  explicit Reader(const DnnGraph& graph) : graph_(graph) {}

  // Writes the tensor that is made: output[n, o, y] = Σ input[n, i, y·stride − before + k·dilation] · weight[o, i, k].
  void run(std::map<std::int64_t, std::vector<std::byte>>& memory) {
    const DnnDescriptor& operation = graph_.descriptors.back();
    const bool is_forward = operation.kind == cudnn::kConvolutionForward,
               is_weight = operation.kind == cudnn::kConvolutionWeight;
    const int base = is_forward ? cudnn::kForwardAlpha : is_weight ? cudnn::kWeightAlpha : cudnn::kInputAlpha;
    const int convolution_at = is_forward  ? cudnn::kForwardConvolution
                               : is_weight ? cudnn::kWeightConvolution
                                           : cudnn::kInputConvolution;
    EXPECT_EQ(number<float>(operation, base), 1);
    EXPECT_EQ(number<float>(operation, base + 1), 0);
    const DnnDescriptor& convolution = other(operation, convolution_at);
    const Tensor input = tensor(other(operation, is_forward  ? cudnn::kForwardInput
                                                 : is_weight ? cudnn::kWeightInput
                                                             : cudnn::kInputInput)),
                 weight = tensor(other(operation, is_forward  ? cudnn::kForwardWeight
                                                  : is_weight ? cudnn::kWeightWeight
                                                              : cudnn::kInputWeight)),
                 output = tensor(other(operation, is_forward  ? cudnn::kForwardOutput
                                                  : is_weight ? cudnn::kWeightOutput
                                                              : cudnn::kInputOutput));
    const Numbers before = numbers(convolution, cudnn::kPrePaddings),
                  behind = numbers(convolution, cudnn::kPostPaddings),
                  dilations = numbers(convolution, cudnn::kDilations), strides = numbers(convolution, cudnn::kStrides);
    const Tensor& made = is_forward ? output : is_weight ? weight : input;
    std::vector<double> sums(memory.at(made.id).size() / 4, 0);
    for (std::size_t d = 0; d + 2 < input.sizes.size(); ++d) {
      EXPECT_EQ(
          (input.sizes[d + 2] + before[d] + behind[d] - dilations[d] * (weight.sizes[d + 2] - 1) - 1) / strides[d] + 1,
          output.sizes[d + 2]);
    }
    const std::int64_t per_group = weight.sizes[1], group_outputs = output.sizes[1] / (input.sizes[1] / per_group);
    Numbers y(output.sizes.size(), 0);
    do {
      Numbers k(weight.sizes.size(), 0);
      do {
        if (k[0] != y[1]) continue;
        Numbers x{y[0], y[1] / group_outputs * per_group + k[1]};
        bool is_inside = true;
        for (std::size_t d = 2; d < y.size(); ++d) {
          x.push_back(y[d] * strides[d - 2] - before[d - 2] + k[d] * dilations[d - 2]);
          is_inside = is_inside && x[d] >= 0 && x[d] < input.sizes[d];
        }
        if (!is_inside) continue;
        const auto at = [&](const Tensor& of, const Numbers& place) {
          return load(memory.at(of.id).data(), of.element, offset(of, place));
        };
        const Numbers& place = is_forward ? y : is_weight ? k : x;
        sums[static_cast<std::size_t>(offset(made, place))] += is_forward  ? at(input, x) * at(weight, k)
                                                               : is_weight ? at(input, x) * at(output, y)
                                                                           : at(output, y) * at(weight, k);
      } while (next(k, weight.sizes));
    } while (next(y, output.sizes));
    std::int64_t elements = 1;
    for (const std::int64_t size : made.sizes) elements *= size;
    for (std::int64_t i = 0; i < elements; ++i)
      store(memory.at(made.id).data(), made.element, i, sums[static_cast<std::size_t>(i)]);
  }

 private:
  struct Tensor {
    std::int64_t id = 0;
    Element element = Element::float32;
    Numbers sizes, strides;
  };

  const DnnDescriptor& other(const DnnDescriptor& of, int attribute) const {
    return graph_.descriptors.at(value(of, attribute).descriptors.at(0));
  }
  static Tensor tensor(const DnnDescriptor& of) {
    const bool is_half = number<std::int32_t>(of, cudnn::kTensorType) == cudnn::kBFloat16;
    return {number<std::int64_t>(of, cudnn::kTensorId), is_half ? Element::bfloat16 : Element::float32,
            numbers(of, cudnn::kTensorSizes), numbers(of, cudnn::kTensorStrides)};
  }
  static std::int64_t offset(const Tensor& of, const Numbers& place) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < place.size(); ++d) offset += place[d] * of.strides[d];
    return offset;
  }
  static bool next(Numbers& place, const Numbers& sizes) {
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++place[d] < sizes[d]) return true;
      place[d] = 0;
    }
    return false;
  }

  const DnnGraph& graph_;
};

TEST(Dnn, DescribesConvolutionsAsItsManualReadsThem) {
  std::mt19937 random(5);
  int taken = 0;
  for (int i = 0; i < 150; ++i) {
    Drawn drawn = draw(random, i % 2 == 0 ? Element::float32 : Element::bfloat16);
    const KernelId kernel = kKernels[i % 3];
    const std::optional<DnnGraph> graph = convolution_graph(drawn.arguments, kernel);
    if (!graph) continue;
    ++taken;
    const std::int64_t made = kernel == KernelId::convolution_output  ? kDnnOutput
                              : kernel == KernelId::convolution_input ? kDnnInput
                                                                      : kDnnWeight;
    auto read = drawn.memory;
    Reader(*graph).run(read);
    const auto elements = static_cast<std::int64_t>(drawn.memory.at(made).size() / 4);
    cuda::kernel(kernel).on_host(&drawn.arguments, elements);
    EXPECT_EQ(read.at(made), drawn.memory.at(made)) << graph->name;
  }
  EXPECT_GT(taken, 140);
}

TEST(Dnn, TakesWhatItsTensorsAre) {
  std::mt19937 random(6);
  const Drawn drawn = draw(random, Element::float32);
  ASSERT_TRUE(convolution_graph(drawn.arguments, KernelId::convolution_output));
  ConvolutionArguments other = drawn.arguments;
  other.weight.element = Element::bfloat16;
  EXPECT_FALSE(convolution_graph(other, KernelId::convolution_output));
  for (View* view : {&other.input, &other.weight, &other.output}) view->element = Element::float64;
  EXPECT_FALSE(convolution_graph(other, KernelId::convolution_output));
  other = drawn.arguments;
  other.batch = 0;
  EXPECT_FALSE(convolution_graph(other, KernelId::convolution_output));
  other = drawn.arguments;
  other.y[2] = 1000;
  other.x[2] = 2;
  other.padding[2] = 0;
  EXPECT_TRUE(convolution_graph(other, KernelId::convolution_output));  // with as much behind it
}

// For an H100, by cuDNN's own heuristics.
TEST(Dnn, IsPlannedByTheLibraryWithoutAGpu) {
  LoadedDnn library(false, {"libcudnn.so.9"}, kH100);
  if (!library.is_there()) GTEST_SKIP() << "libcudnn was not found";
  std::mt19937 random(7);
  ProductPlan plan;
  EntryPoint entry = EntryPoint::dnn_make;
  if (const Code code =
          library.plan(0, *convolution_graph(draw(random, Element::float32).arguments, kKernels[0]), plan, entry);
      code != 0)
    GTEST_SKIP() << "libcudnn plans for no GPU that is not there: " << name(entry) << " " << code;
  int found = 0, asked = 0;
  for (int i = 0; i < 60; ++i) {
    const Drawn drawn = draw(random, i % 2 == 0 ? Element::float32 : Element::bfloat16);
    const std::optional<DnnGraph> graph = convolution_graph(drawn.arguments, kKernels[i % 3]);
    if (!graph) continue;
    const Code code = library.plan(0, *graph, plan, entry);
    ASSERT_EQ(code, 0) << name(entry) << ": " << library.text(code) << ", " << graph->name;
    ++asked;
    found += plan.is_found ? 1 : 0;
  }
  EXPECT_GT(found, asked / 2);
  RecordProperty("found", found);
  EXPECT_EQ(library.release(0, entry), 0) << name(entry);
}

TEST(Dnn, PlansNothingWithoutTheLibrary) {
  LoadedDnn library(false, {"no such library"});
  std::mt19937 random(8);
  ProductPlan plan{true, 1};
  EntryPoint entry = EntryPoint::dnn_make;
  EXPECT_EQ(library.plan(0, *convolution_graph(draw(random, Element::float32).arguments, kKernels[0]), plan, entry), 0);
  EXPECT_FALSE(plan.is_found);
}

}  // namespace
}  // namespace meshwright::cuda
