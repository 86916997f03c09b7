// What cudnn_backend.h of cuDNN 9 declares, as far as it is called here; a test holds it to the header where there is
// one. Handles and descriptors are pointers to what only the library knows.
#pragma once

#include <cstdint>

namespace meshwright::cuda::cudnn {

// cudnnDataType_t
inline constexpr std::int32_t kFloat = 0, kBFloat16 = 9;
inline constexpr std::int32_t kCrossCorrelation = 1;  // CUDNN_CROSS_CORRELATION
// cudnnBackendHeurMode_t: what is fast, and what takes nearly everything.
inline constexpr std::int32_t kFast = 3, kFallback = 2;

// cudnnBackendDescriptorType_t
inline constexpr int kConvolution = 1, kEngine = 2, kEngineConfig = 3, kEngineHeuristics = 4, kExecutionPlan = 5,
                     kConvolutionForward = 10, kConvolutionWeight = 11, kConvolutionInput = 12, kOperationGraph = 15,
                     kVariantPack = 16, kTensor = 17, kDeviceProperties = 38;

// cudnnBackendAttributeType_t
inline constexpr int kOfHandle = 0, kOfDataType = 1, kOfInt64 = 3, kOfFloat = 4, kOfPointer = 6, kOfConvolutionMode = 7,
                     kOfHeuristicsMode = 8, kOfNumericalNote = 11, kOfDescriptor = 15, kOfChar = 24;

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
inline constexpr int kGraphHandle = 800, kGraphOperations = 801;
inline constexpr int kTensorAlignment = 900, kTensorType = 901, kTensorSizes = 902, kTensorStrides = 903,
                     kTensorId = 906;
inline constexpr int kPackIds = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
inline constexpr int kEngineNotes = 1303;
inline constexpr int kDeviceText = 2702;

// cudnnBackendNumericalNote_t
inline constexpr std::int32_t kTensorCore = 0, kDownConvertsInputs = 1, kReducesInLess = 2, kNondeterministic = 4;
inline constexpr int kNotes = 10;  // CUDNN_NUMERICAL_NOTE_TYPE_COUNT

inline constexpr bool is_not_supported(int code) { return code / 1000 == 3; }  // CUDNN_STATUS_NOT_SUPPORTED, ...

}  // namespace meshwright::cuda::cudnn
