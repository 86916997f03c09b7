#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "attention.h"
#include "broadcast.h"
#include "meshwright/shard.h"
#include "numbers.h"
#include "random_stream.h"

namespace meshwright {

namespace {

constexpr double kForbiddenScore = -std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, std::size_t count) {
  double sums[4] = {0, 0, 0, 0};  // four at a time, which the compiler may not decide by itself
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// to += factor·from, which lie apart
void add(double* __restrict to, double factor, const double* __restrict from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) to[i + k] += factor * from[i + k];
  }
  for (; i < count; ++i) to[i] += factor * from[i];
}

// One attention: [batches, l, d], [key batches, s, d], [key batches, s, e]; grouped queries share a batch of keys.
class AttentionCall {
 public:
  AttentionCall(const Node& node, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor* mask)
      : query_(numbers_of(query)),
        key_(numbers_of(key)),
        value_(numbers_of(value)),
        causal_(node.boolean("is_causal", false)),
        queries_(node, "queries", query.shape()[query.shape().size() - 2]),
        rows_(node, "rows", query.elements() / query.shape().back()),
        dropout_(node.number("dropout_p", 0)),
        random_(node) {
    const std::vector<std::int64_t>& shape = query.shape();
    l_ = to_size(*(shape.end() - 2));
    d_ = to_size(shape.back());
    s_ = to_size(*(key.shape().end() - 2));
    e_ = to_size(value.shape().back());
    repeats_ = query_.size() / (l_ * d_) / (key_.size() / (s_ * d_));
    scale_ = node.number("scale", 1 / std::sqrt(static_cast<double>(d_)));
    if (!mask) return;
    std::vector<std::int64_t> scores(shape.begin(), shape.end() - 1);
    scores.push_back(static_cast<std::int64_t>(s_));
    mask_index_.emplace(mask->shape(), scores);
    mask_ = numbers_of(*mask);
    if (mask->type().dtype != DType::boolean) return;
    for (double& number : mask_) number = number != 0 ? 0 : kForbiddenScore;
  }

  [[nodiscard]] Numbers forward() const {
    Numbers result(query_.size() / d_ * e_, 0);
    for (std::size_t row = 0; row < query_.size() / d_; ++row) {
      const Numbers p = probabilities(row);
      for (std::size_t j = 0; j < p.size(); ++j) {
        add(&result[row * e_], p[j] * kept(row, j), &value_[keys(row, j) * e_], e_);
      }
    }
    return result;
  }

  struct Gradients {
    Numbers query, key, value, mask;
  };

  // With p the probabilities, m what dropout keeps of them (scaled), g the gradient and y the result (Dao et al. 2022,
  // FlashAttention, appendix B.2): dV = (m·p)ᵀg; dP = m·g·Vᵀ; dS = p·(dP − Σ g·y); dQ = scale·dS·K; dK = scale·dSᵀ·Q; the mask's is dS.
  [[nodiscard]] Gradients backward(const Numbers& gradient, const Numbers& output) const {
    Gradients made{Numbers(query_.size(), 0), Numbers(key_.size(), 0), Numbers(value_.size(), 0),
                   Numbers(mask_.size(), 0)};
    for (std::size_t row = 0; row < query_.size() / d_; ++row) {
      const Numbers p = probabilities(row);
      const double* g = &gradient[row * e_];
      const double mean = dot(g, &output[row * e_], e_);
      for (std::size_t j = 0; j < p.size(); ++j) {
        const std::size_t at = keys(row, j);
        const double m = kept(row, j);
        const double ds = p[j] * (m * dot(g, &value_[at * e_], e_) - mean);
        add(&made.value[at * e_], m * p[j], g, e_);
        add(&made.query[row * d_], scale_ * ds, &key_[at * d_], d_);
        add(&made.key[at * d_], scale_ * ds, &query_[row * d_], d_);
        if (mask_index_) made.mask[masks(row, j)] += ds;
      }
    }
    return made;
  }

 private:
  // The row of keys and values that query `row` meets j-th; of the mask, its element.
  [[nodiscard]] std::size_t keys(std::size_t row, std::size_t j) const { return row / l_ / repeats_ * s_ + j; }
  [[nodiscard]] std::size_t masks(std::size_t row, std::size_t j) const {
    return to_size((*mask_index_)(static_cast<std::int64_t>(row * s_ + j)));
  }

  // What dropout makes of a probability: 0, or 1/(1-p).
  [[nodiscard]] double kept(std::size_t row, std::size_t j) const {
    if (dropout_ == 0) return 1;
    const std::int64_t element = rows_.global(static_cast<std::int64_t>(row)) * static_cast<std::int64_t>(s_) + static_cast<std::int64_t>(j);
    return random_.uniform(element) < dropout_ ? 0 : 1 / (1 - dropout_);
  }

  // How many keys a query meets: those up to its own position, if it is causal.
  [[nodiscard]] std::size_t reach(std::size_t row) const {
    if (!causal_) return s_;
    return std::min(s_, to_size(queries_.global(static_cast<std::int64_t>(row % l_)) + 1));
  }

  // softmax(scale·Q·Kᵀ + mask) for one query and the keys in its reach; zeros where no key is allowed, as in PyTorch.
  [[nodiscard]] Numbers probabilities(std::size_t row) const {
    Numbers scores(reach(row), kForbiddenScore);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      scores[j] =
          scale_ * dot(&query_[row * d_], &key_[keys(row, j) * d_], d_) + (mask_index_ ? mask_[masks(row, j)] : 0);
    }
    const double highest = scores.empty() ? kForbiddenScore : *std::max_element(scores.begin(), scores.end());
    if (highest == kForbiddenScore) return Numbers(scores.size(), 0);
    double sum = 0;
    for (double& number : scores) sum += number = std::exp(number - highest);
    for (double& number : scores) number /= sum;
    return scores;
  }

  const Numbers query_, key_, value_;
  Numbers mask_;
  std::optional<BroadcastIndex> mask_index_;
  const bool causal_;
  const ShardIndex queries_, rows_;
  const double dropout_;
  const RandomStream random_;
  std::size_t l_ = 0, d_ = 0, s_ = 0, e_ = 0, repeats_ = 1;
  double scale_ = 1;
};

}  // namespace

Status check_shapes(const TensorType& query, const TensorType& key, const TensorType& value) {
  const auto rank = static_cast<std::size_t>(query.rank());
  if (rank < 3 || key.rank() != query.rank() || value.rank() != query.rank()) {
    return bad_input("attention needs queries, keys and values of one rank, at least 3");
  }
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const bool heads = i + 3 == rank;
    if (key.shape[i] != value.shape[i] || (heads ? query.shape[i] % key.shape[i] != 0 : query.shape[i] != key.shape[i])) {
      return bad_input("attention of queries " + to_string(query) + " to keys " + to_string(key) + " and values " + to_string(value) +
                       ": only the heads of keys and values, together, may be fewer");
    }
  }
  return Done{};
}

Result<std::vector<Tensor>> attention_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const auto operand = [&](std::string_view name) -> const Tensor* {
    const auto index = call.node.operand_index(name);
    return index ? operands[*index] : nullptr;
  };
  const auto type = [&](std::string_view name) -> const TensorType& { return operand(name)->type(); };
  if (Status status = check_shapes(type("query"), type("key"), type("value")); !status) return status.error();
  const AttentionCall attention(call.node, *operand("query"), *operand("key"), *operand("value"), operand("attn_mask"));
  if (!is_backward(call.node)) return listed(written(call.result(0), attention.forward()));
  const AttentionCall::Gradients made =
      attention.backward(numbers_of(*operand("grad_output")), numbers_of(*operand("output")));
  const Numbers* gradients[] = {&made.query, &made.key, &made.value, &made.mask};
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < std::size(gradients); ++i) {
    if (gives_gradient(call.node, i)) results.push_back(written(call.result(results.size()), *gradients[i]));
  }
  return results;
}

}  // namespace meshwright
