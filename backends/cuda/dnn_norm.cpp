#include "dnn_norm.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "cudnn_backend.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

using namespace dnn_norm;

// One operation, whose fields are tensors of rows.
class NormBuilder {
 public:
  // Views: of all tensors.
  NormBuilder(const NormArguments& a, const char* what, std::initializer_list<const View*> views)
      : arguments_(a), dtype_(static_cast<DType>(a.input.element)) {
    for (const View* view : views) alignment_ = std::min<std::int64_t>(alignment_, alignment_of(view->data));
    graph_.name = std::string(what) + (a.rms ? "a root mean square norm of " : "a layer norm of ") +
                  std::to_string(a.rows) + " rows of " + std::to_string(a.extent) +
                  (dtype_ == DType::bfloat16 ? ", in bfloat16" : "");
    graph_.factors = dtype_;
  }

  void take(int attribute, DnnDescriptor tensor) {
    operation_.values.push_back(dnn_descriptor(attribute, graph_.descriptors.size()));
    graph_.descriptors.push_back(std::move(tensor));
  }
  void take_rows(int attribute, std::int64_t id) {
    take(attribute, rows(id, dtype_, arguments_.rows, arguments_.extent));
  }
  void take_row(int attribute, std::int64_t id) { take(attribute, rows(id, dtype_, 1, arguments_.extent)); }
  void take_statistics(int attribute, std::int64_t id) {
    take(attribute, rows(id, DType::float32, arguments_.rows, 1));
  }

  DnnGraph made(int kind, int mode) {
    operation_.kind = kind;
    operation_.values.push_back(
        dnn_enumerator(mode, cudnn::kOfNormMode, arguments_.rms ? cudnn::kRmsNorm : cudnn::kLayerNorm));
    if (kind == cudnn::kNormForward)
      operation_.values.push_back(dnn_enumerator(cudnn::kNormPhase, cudnn::kOfNormPhase, cudnn::kInference));
    graph_.operations = {graph_.descriptors.size()};
    graph_.descriptors.push_back(std::move(operation_));
    return std::move(graph_);
  }

 private:
  DnnDescriptor rows(std::int64_t id, DType dtype, std::int64_t rows, std::int64_t columns) const {
    return dnn_rows(id, dtype, rows, columns, alignment_);
  }

  const NormArguments& arguments_;
  const DType dtype_;
  std::int64_t alignment_ = 16;
  DnnGraph graph_;
  DnnDescriptor operation_;
};

bool is_norm_taken(const NormArguments& a, std::initializer_list<const View*> views) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto is_alike = [&](const View* view) { return view->element == a.input.element; };
  return a.has_weight && is_single(a.input.element) && std::ranges::all_of(views, is_alike) &&
         std::min(a.rows, a.extent) > 0 && std::max(a.rows, a.extent) <= kMost;
}

}  // namespace

std::optional<DnnGraph> norm_graph(const NormArguments& a) {
  if (!is_norm_taken(a, {&a.weight, &a.result}) || a.has_bias == a.rms) return std::nullopt;
  if (a.has_bias && a.bias.element != a.input.element) return std::nullopt;
  NormBuilder builder(a, "", {&a.input, &a.weight, &a.bias, &a.result});
  builder.take_rows(cudnn::kNormX, kInput);
  builder.take_row(cudnn::kNormWeight, kWeight);
  if (a.has_bias) builder.take_row(cudnn::kNormBias, kBias);
  builder.take(cudnn::kNormEpsilon, dnn_scalar(kEpsilon));
  builder.take_rows(cudnn::kNormY, kOutput);
  DnnGraph graph = builder.made(cudnn::kNormForward, cudnn::kNormMode);
  graph.kernel_bytes = static_cast<std::size_t>(a.rows) * 2 * sizeof(double);
  return graph;
}

std::optional<DnnGraph> norm_gradient_graph(const NormArguments& a) {
  if (!is_norm_taken(a, {&a.weight, &a.gradient})) return std::nullopt;
  NormBuilder builder(a, "the gradients of ", {&a.input, &a.weight, &a.gradient});
  builder.take_rows(cudnn::kNormBackwardX, kInput);
  builder.take_rows(cudnn::kNormBackwardGradient, kGradient);
  builder.take_row(cudnn::kNormBackwardWeight, kWeight);
  if (!a.rms) builder.take_statistics(cudnn::kNormBackwardMean, kMean);
  builder.take_statistics(cudnn::kNormBackwardDeviation, kDeviation);
  builder.take_row(cudnn::kNormBackwardWeightGradient, kWeightGradient);
  if (!a.rms) builder.take_row(cudnn::kNormBackwardBiasGradient, kBiasGradient);
  builder.take_rows(cudnn::kNormBackwardInputGradient, kInputGradient);
  return builder.made(cudnn::kNormBackward, cudnn::kNormBackwardMode);
}

}  // namespace meshwright::cuda
