// What cudnn_backend.h of cuDNN 9 declares, as far as it is called here; a test holds it to the header where there is
// one. Handles and descriptors are pointers to what only the library knows.
#pragma once

#include <cstdint>

namespace meshwright::cuda::cudnn {

// cudnnDataType_t
inline constexpr std::int32_t kFloat = 0, kInt32 = 4, kBFloat16 = 9, kBoolean = 11;
inline constexpr std::int32_t kCrossCorrelation = 1;  // CUDNN_CROSS_CORRELATION
// cudnnBackendHeurMode_t: what is fast, and what takes nearly everything.
inline constexpr std::int32_t kFast = 3, kFallback = 2;

// cudnnBackendDescriptorType_t
inline constexpr int kPointwise = 0, kPointwiseOperation = 13, kProduct = 18, kProductOperation = 19, kReduction = 21,
                     kReductionOperation = 22, kNormForward = 29, kNormBackward = 30, kReshapeOperation = 31;
inline constexpr int kConvolution = 1, kEngine = 2, kEngineConfig = 3, kEngineHeuristics = 4, kExecutionPlan = 5,
                     kConvolutionForward = 10, kConvolutionWeight = 11, kConvolutionInput = 12, kOperationGraph = 15,
                     kVariantPack = 16, kTensor = 17, kDeviceProperties = 38;

// cudnnBackendAttributeType_t
inline constexpr int kOfHandle = 0, kOfDataType = 1, kOfFlag = 2, kOfInt64 = 3, kOfFloat = 4, kOfPointer = 6,
                     kOfConvolutionMode = 7, kOfHeuristicsMode = 8, kOfNumericalNote = 11, kOfPointwiseMode = 14,
                     kOfDescriptor = 15, kOfReduction = 18, kOfChar = 24, kOfNormMode = 27, kOfNormPhase = 28;

// cudnnBackendAttributeName_t
inline constexpr int kConvolutionType = 100, kConvolutionMode = 101, kDilations = 102, kStrides = 103,
                     kPostPaddings = 104, kPrePaddings = 105, kSpatialDimensions = 106;
inline constexpr int kHeuristicsMode = 200, kHeuristicsGraph = 201, kHeuristicsResults = 202, kHeuristicsDevice = 204;
inline constexpr int kConfigEngine = 300;
inline constexpr int kPlanHandle = 400, kPlanConfig = 401, kPlanWorkspace = 402, kPlanDevice = 407;
// Of the three operations of a convolution, in the order of their descriptors' fields below.
inline constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConvolution = 702, kForwardWeight = 703,
                     kForwardInput = 704, kForwardOutput = 705;
inline constexpr int kInputAlpha = 706, kInputBeta = 707, kInputConvolution = 708, kInputWeight = 709,
                     kInputInput = 710, kInputOutput = 711;
inline constexpr int kWeightAlpha = 712, kWeightBeta = 713, kWeightConvolution = 714, kWeightWeight = 715,
                     kWeightInput = 716, kWeightOutput = 717;
inline constexpr int kPointwiseMode = 0, kPointwiseType = 1, kPointwiseAxis = 9;
inline constexpr int kPointwiseWhat = 750, kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753, kPointwiseT = 758;
inline constexpr int kProductType = 1500, kProductA = 1520, kProductB = 1521, kProductC = 1522, kProductWhat = 1523;
inline constexpr int kReductionOperator = 1600, kReductionType = 1601, kReductionX = 1610, kReductionY = 1611,
                     kReductionWhat = 1612;
inline constexpr int kReshapeX = 2200, kReshapeY = 2201;
inline constexpr int kNormMode = 2000, kNormPhase = 2001, kNormX = 2002, kNormWeight = 2005, kNormBias = 2006,
                     kNormEpsilon = 2007, kNormY = 2013;
inline constexpr int kNormBackwardMode = 2100, kNormBackwardX = 2101, kNormBackwardMean = 2102,
                     kNormBackwardDeviation = 2103, kNormBackwardGradient = 2104, kNormBackwardWeight = 2105,
                     kNormBackwardWeightGradient = 2107, kNormBackwardBiasGradient = 2108,
                     kNormBackwardInputGradient = 2109;
inline constexpr int kGraphHandle = 800, kGraphOperations = 801;
inline constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorSizes = 902, kTensorStrides = 903,
                     kTensorId = 906, kTensorIsVirtual = 907, kTensorIsByValue = 908;
inline constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
inline constexpr int kEngineNotes = 1303;
inline constexpr int kDeviceText = 2702;

// cudnnPointwiseMode_t, cudnnReduceTensorOp_t
inline constexpr std::int32_t kAdd = 0, kMultiply = 1, kDivide = 6, kSubtract = 9, kExponential = 13, kLogarithm = 15,
                              kNotLess = 303, kIndex = 501, kSelect = 601;
inline constexpr std::int32_t kSum = 0, kMaximum = 3;

// cudnnBackendNormMode_t; of the phase: without what a backward would read.
inline constexpr std::int32_t kLayerNorm = 0, kRmsNorm = 4, kInference = 0;

// cudnnBackendNumericalNote_t
inline constexpr std::int32_t kTensorCore = 0, kDownConvertsInputs = 1, kReducesInLess = 2, kNondeterministic = 4;
inline constexpr int kNotes = 10;  // CUDNN_NUMERICAL_NOTE_TYPE_COUNT

inline constexpr bool is_not_supported(int code) { return code / 1000 == 3; }  // CUDNN_STATUS_NOT_SUPPORTED, ...

}  // namespace meshwright::cuda::cudnn
