#include "dnn_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cudnn_backend.h"
#include "meshwright/tensor.h"
#include "seen.h"

namespace meshwright::cuda {

namespace {

using NumberList = std::vector<std::int64_t>;
using Place = std::size_t;  // of a descriptor

constexpr std::int64_t kFirstBetween = 100;  // ids of what stays between operations

// Operations one after the other. What they hand on has no memory, but where it is named.
class Builder {
 public:
  Builder(std::string name, std::int64_t alignment) : alignment_(alignment) {
    graph_.name = std::move(name);
    graph_.factors = DType::bfloat16;
  }

  Place tensor(std::int64_t id, DType dtype, const NumberList& sizes) {
    return add(dnn_tensor(id, dtype, sizes, alignment_));
  }
  Place half(std::int64_t id, const NumberList& sizes, const NumberList& strides) {
    DnnDescriptor made = dnn_tensor(id, DType::bfloat16, sizes, alignment_);
    set_strides(made, strides);
    return add(std::move(made));
  }
  Place half(std::int64_t id, const NumberList& sizes, const View& view) {
    return half(id, sizes, strides_of(view, sizes));
  }
  // The same memory with rows and columns exchanged. `sizes`: before that.
  Place turned(std::int64_t id, const NumberList& sizes, const View& view) {
    const NumberList strides = strides_of(view, sizes);
    return half(id, {sizes[0], sizes[1], sizes[3], sizes[2]}, {strides[0], strides[1], strides[3], strides[2]});
  }
  Place scalar(std::int64_t id) { return add(dnn_scalar(id)); }

  Place multiply(Place a, Place b, Place made) {
    const Place product =
        add({cudnn::kProduct, {dnn_enumerator(cudnn::kProductType, cudnn::kOfDataType, cudnn::kFloat)}});
    operate({cudnn::kProductOperation,
             {dnn_descriptor(cudnn::kProductA, a), dnn_descriptor(cudnn::kProductB, b),
              dnn_descriptor(cudnn::kProductC, made), dnn_descriptor(cudnn::kProductWhat, product)}});
    return made;
  }
  Place multiply(Place a, Place b, const NumberList& sizes) { return multiply(a, b, between(sizes)); }

  // A function of each element of `x`, and of `b`.
  Place apply(std::int32_t mode, Place x, std::optional<Place> b, Place made, std::optional<Place> chooses = {},
              std::int32_t type = cudnn::kFloat, std::int64_t axis = -1) {
    DnnDescriptor function{cudnn::kPointwise,
                           {dnn_enumerator(cudnn::kPointwiseMode, cudnn::kOfPointwiseMode, mode),
                            dnn_enumerator(cudnn::kPointwiseType, cudnn::kOfDataType, type)}};
    if (axis >= 0) function.values.push_back(dnn_numbers(cudnn::kPointwiseAxis, {axis}));
    DnnDescriptor operation{
        cudnn::kPointwiseOperation,
        {dnn_descriptor(cudnn::kPointwiseWhat, add(std::move(function))), dnn_descriptor(cudnn::kPointwiseX, x)}};
    if (b) operation.values.push_back(dnn_descriptor(cudnn::kPointwiseB, *b));
    if (chooses) operation.values.push_back(dnn_descriptor(cudnn::kPointwiseT, *chooses));
    operation.values.push_back(dnn_descriptor(cudnn::kPointwiseY, made));
    operate(std::move(operation));
    return made;
  }
  Place apply(std::int32_t mode, Place x, std::optional<Place> b, const NumberList& sizes) {
    return apply(mode, x, b, between(sizes));
  }

  Place reduce(std::int32_t kind, Place x, const NumberList& sizes) { return reduce(kind, x, between(sizes)); }
  Place reduce(std::int32_t kind, Place x, Place made) {
    const Place reduction = add({cudnn::kReduction,
                                 {dnn_enumerator(cudnn::kReductionOperator, cudnn::kOfReduction, kind),
                                  dnn_enumerator(cudnn::kReductionType, cudnn::kOfDataType, cudnn::kFloat)}});
    operate({cudnn::kReductionOperation,
             {dnn_descriptor(cudnn::kReductionX, x), dnn_descriptor(cudnn::kReductionY, made),
              dnn_descriptor(cudnn::kReductionWhat, reduction)}});
    return made;
  }

  // What is between, in bfloat16, with rows and columns exchanged. `sizes`: exchanged.
  Place turn(Place x, const NumberList& sizes) {
    DnnDescriptor made = dnn_tensor(next_++, DType::bfloat16, sizes, alignment_);
    set_strides(made, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], 1, sizes[2]});
    made.values.push_back(dnn_flag(cudnn::kTensorIsVirtual));
    const Place place = add(std::move(made));
    operate({cudnn::kReshapeOperation, {dnn_descriptor(cudnn::kReshapeX, x), dnn_descriptor(cudnn::kReshapeY, place)}});
    return place;
  }

  Place between(const NumberList& sizes, std::int32_t type = cudnn::kFloat) {
    DnnDescriptor made = dnn_tensor(next_++, DType::float32, sizes, alignment_);
    made.values[0] = dnn_enumerator(cudnn::kTensorType, cudnn::kOfDataType, type);
    made.values.push_back(dnn_flag(cudnn::kTensorIsVirtual));
    return add(std::move(made));
  }

  DnnGraph take() { return std::move(graph_); }

 private:
  Place add(DnnDescriptor descriptor) {
    graph_.descriptors.push_back(std::move(descriptor));
    return graph_.descriptors.size() - 1;
  }
  void operate(DnnDescriptor operation) { graph_.operations.push_back(add(std::move(operation))); }
  static void set_strides(DnnDescriptor& tensor, const NumberList& strides) {
    std::ranges::find(tensor.values, cudnn::kTensorStrides, &DnnValue::attribute)->bytes =
        dnn_numbers(cudnn::kTensorStrides, strides).bytes;
  }
  static NumberList strides_of(const View& view, const NumberList& sizes) {
    return has_strides(view) ? NumberList(view.strides, view.strides + 4) : meshwright::strides_of(sizes);
  }

  const std::int64_t alignment_;
  DnnGraph graph_;
  std::int64_t next_ = kFirstBetween;
};

// Queries that share keys are the heads of one batch, or as many heads after each other.
struct Shapes {
  Shapes(const AttentionArguments& a, const std::optional<AttentionBias>& bias, std::int64_t of_batch)
      : heads(bias           ? bias->heads
              : of_batch > 0 ? of_batch
                             : a.repeats),
        key_heads(heads / a.repeats),
        batches(a.rows / a.l / heads),
        queries{batches, heads, a.l, a.d},
        keys{batches, key_heads, a.s, a.d},
        keys_of_queries{batches, heads, a.s, a.d},
        scores{batches, heads, a.l, a.s},
        turned_scores{batches, heads, a.s, a.l},
        rows{batches, heads, a.l, 1} {}

  std::int64_t heads, key_heads, batches;
  NumberList queries, keys, keys_of_queries, scores, turned_scores, rows;
};

bool is_taken(const AttentionArguments& a, const std::optional<AttentionBias>& bias,
              std::initializer_list<const View*> views) {
  const auto is_half = [](const View* view) { return view->element == Element::bfloat16; };
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!std::ranges::all_of(views, is_half) || a.has_mask != bias.has_value()) return false;
  if (a.dropout != 0 || a.d != a.e || a.d % 8 != 0) return false;
  if (std::max({a.rows, a.l, a.s, a.d}) > kMost || std::min({a.rows, a.l, a.s}) < 1) return false;
  for (std::int64_t i = 0; a.causal && i < a.l; ++i) {
    if (global_of(a.queries, i) != i) return false;
  }
  return true;
}

std::int64_t least_alignment(std::initializer_list<const View*> views) {
  std::int64_t least = 16;
  for (const View* view : views) least = std::min<std::int64_t>(least, alignment_of(view->data));
  return least;
}

std::string name_of(const AttentionArguments& a, const char* what) {
  return std::string(what) + (a.causal ? "causal " : "") + (a.has_mask ? "masked " : "") + "attention of " +
         std::to_string(a.rows / a.l) + " batches of " + std::to_string(a.l) + " queries and " + std::to_string(a.s) +
         " keys of " + std::to_string(a.d);
}

// scale·Q·Kᵀ with the bias, and where it is causal so that a query does not see later keys.
Place scores_of(Builder& builder, const AttentionArguments& a, const std::optional<AttentionBias>& bias,
                const Shapes& shapes, Place query, Place turned_key, Place scale) {
  Place scaled =
      builder.apply(cudnn::kMultiply, builder.multiply(query, turned_key, shapes.scores), scale, shapes.scores);
  if (bias)
    scaled = builder.apply(cudnn::kAdd, scaled, builder.tensor(dnn_attention::kBias, AttentionBias::kType, bias->sizes),
                           shapes.scores);
  if (!a.causal) return scaled;
  const auto index = [&](std::int64_t axis) {
    return builder.apply(cudnn::kIndex, scaled, {}, builder.between(shapes.scores, cudnn::kInt32), {}, cudnn::kInt32,
                         axis);
  };
  const Place row = index(2), column = index(3);
  const Place sees =
      builder.apply(cudnn::kNotLess, row, column, builder.between(shapes.scores, cudnn::kBoolean), {}, cudnn::kBoolean);
  return builder.apply(cudnn::kSelect, scaled, builder.scalar(dnn_attention::kUnseen), builder.between(shapes.scores),
                       sees);
}

}  // namespace

NumberList strides_like(const View& view, const NumberList& sizes) {
  return has_strides(view) ? strides_in_order_of({view.strides, 4}, sizes) : strides_of(sizes);
}

std::optional<DnnGraph> attention_graph(const AttentionArguments& a, const std::optional<AttentionBias>& bias,
                                        std::int64_t heads) {
  using namespace dnn_attention;
  if (!is_taken(a, bias, {&a.query, &a.key, &a.value})) return std::nullopt;
  const Shapes shapes(a, bias, heads);
  Builder builder(name_of(a, ""), least_alignment({&a.query, &a.key, &a.value}));
  const Place query = builder.half(kQuery, shapes.queries, a.query),
              key = builder.turned(kTurnedKey, shapes.keys, a.key), value = builder.half(kValue, shapes.keys, a.value),
              output = builder.half(kOutput, shapes.queries,
                                    bias ? strides_of(shapes.queries) : strides_like(a.query, shapes.queries)),
              statistics = builder.tensor(kStatistics, DType::float32, shapes.rows), scale = builder.scalar(kScale);
  const Place scores = scores_of(builder, a, bias, shapes, query, key, scale);
  const Place highest = builder.reduce(cudnn::kMaximum, scores, shapes.rows);
  const Place lowered = builder.apply(cudnn::kSubtract, scores, highest, shapes.scores);
  const Place exponentials = builder.apply(cudnn::kExponential, lowered, {}, shapes.scores);
  const Place sum = builder.reduce(cudnn::kSum, exponentials, shapes.rows);
  builder.apply(cudnn::kAdd, highest, builder.apply(cudnn::kLogarithm, sum, {}, shapes.rows), statistics);
  const Place weights =
      builder.apply(cudnn::kDivide, exponentials, sum, builder.between(shapes.scores, cudnn::kBFloat16));
  builder.multiply(weights, value, output);
  DnnGraph graph = builder.take();
  graph.kernel_bytes = static_cast<std::size_t>(a.rows * a.s) * sizeof(double);
  return graph;
}

// FlashAttention, appendix B.2: dV = pᵀg; dP = g·Vᵀ; dS = p·(dP − Σ g·y); dQ = scale·dS·K; dK = scale·dSᵀ·Q.
std::optional<DnnGraph> attention_gradient_graph(const AttentionArguments& a, const std::optional<AttentionBias>& bias,
                                                 std::int64_t heads) {
  using namespace dnn_attention;
  const auto views = {&a.query, &a.key, &a.value, &a.output, &a.gradient};
  if (!is_taken(a, bias, views)) return std::nullopt;
  const Shapes shapes(a, bias, heads);
  Builder builder(name_of(a, "the gradients of "), least_alignment(views));
  const auto gradient_of = [&](std::int64_t id, const NumberList& sizes, const View& view) {
    return builder.half(id, sizes, strides_like(view, sizes));
  };
  const Place query = builder.half(kQuery, shapes.queries, a.query),
              turned_key = builder.turned(kTurnedKey, shapes.keys, a.key),
              turned_value = builder.turned(kTurnedValue, shapes.keys, a.value),
              output = builder.half(kOutput, shapes.queries, a.output),
              gradient = builder.half(kGradient, shapes.queries, a.gradient),
              query_gradient = gradient_of(kQueryGradient, shapes.queries, a.query),
              key_gradient = gradient_of(kKeyGradient, shapes.keys, a.key),
              value_gradient = gradient_of(kValueGradient, shapes.keys, a.value),
              statistics = builder.tensor(kStatistics, DType::float32, shapes.rows), scale = builder.scalar(kScale),
              key = builder.half(kKey, shapes.keys, a.key);
  const Place mean =
      builder.reduce(cudnn::kSum, builder.apply(cudnn::kMultiply, gradient, output, shapes.queries), shapes.rows);
  const Place scores = scores_of(builder, a, bias, shapes, query, turned_key, scale);
  const Place weights = builder.apply(
      cudnn::kExponential, builder.apply(cudnn::kSubtract, scores, statistics, shapes.scores), {}, shapes.scores);
  // Of keys that queries share: a gradient for each of these, which are summed.
  const auto multiply_by_keys = [&](Place turned, Place of_queries, Place made) {
    if (a.repeats == 1) return builder.multiply(turned, of_queries, made);
    const Place each = builder.multiply(turned, of_queries, builder.between(shapes.keys_of_queries, cudnn::kBFloat16));
    return builder.reduce(cudnn::kSum, each, made);
  };
  multiply_by_keys(builder.turn(weights, shapes.turned_scores), gradient, value_gradient);
  const Place slopes = builder.apply(
      cudnn::kMultiply,
      builder.apply(cudnn::kSubtract, builder.multiply(gradient, turned_value, shapes.scores), mean, shapes.scores),
      weights, shapes.scores);
  const Place scaled = builder.apply(cudnn::kMultiply, slopes, scale, builder.between(shapes.scores, cudnn::kBFloat16));
  multiply_by_keys(builder.turn(scaled, shapes.turned_scores), query, key_gradient);
  builder.multiply(scaled, key, query_gradient);
  DnnGraph graph = builder.take();
  graph.kernel_bytes = static_cast<std::size_t>(2 * a.rows * a.s) * sizeof(double);
  return graph;
}

}  // namespace meshwright::cuda
