#include <algorithm>

#include "broadcast.h"
#include "indexing.h"

namespace meshwright {

namespace {

using Position = std::vector<std::int64_t>;

Position position_of(std::int64_t flat, const std::vector<std::int64_t>& strides) {
  Position position;
  for (const std::int64_t stride : strides) {
    position.push_back(flat / stride);
    flat %= stride;
  }
  return position;
}

std::int64_t flat_of(const Position& position, const std::vector<std::int64_t>& strides) {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < position.size(); ++d) flat += position[d] * strides[d];
  return flat;
}

// Negative positions count from the end.
std::int64_t wrapped(double index, std::int64_t extent) {
  const auto at = static_cast<std::int64_t>(index);
  return at < 0 ? at + extent : at;
}

// Finds, for a position of the result, the one of the operand.
class Picker {
 public:
  Picker(const OpCall& call, std::span<const Tensor* const> operands) : node_(call.node), operands_(operands) {
    const std::int64_t rank = call.operands[0].rank();
    const std::int64_t dim = node_.integer("dim", 0);
    dimension_ = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
    if (node_.op != "aten.index.Tensor") return;
    indexed_.assign(static_cast<std::size_t>(rank), 0);
    std::size_t first = indexed_.size(), last = 0;
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const std::size_t at = indexed_dimension(node_, i);
      indexed_[at] = i;
      first = std::min(first, at);
      last = std::max(last, at);
      if (operands[i]->type().rank() > static_cast<std::int64_t>(shape_.size())) shape_.resize(operands[i]->shape().size());
    }
    front_ = last - first + 2 == operands.size() ? first : 0;  // neighbours keep their place
    for (std::size_t d = 0; d < shape_.size(); ++d) shape_[d] = call.results[0].shape[front_ + d];
    for (std::size_t i = 1; i < operands.size(); ++i) broadcast_.emplace_back(operands[i]->shape(), shape_);
  }

  [[nodiscard]] Position source(const Position& result, std::int64_t flat) const {
    const std::vector<std::int64_t>& shape = operands_[0]->shape();
    if (node_.op == "aten.gather") {
      Position source = result;
      source[dimension_] = wrapped(operands_[1]->get(flat), shape[dimension_]);
      return source;
    }
    if (node_.op == "aten.index_select") {
      Position source = result;
      source[dimension_] = wrapped(operands_[1]->get(result[dimension_]), shape[dimension_]);
      return source;
    }
    const Position picked(result.begin() + static_cast<std::ptrdiff_t>(front_),
                          result.begin() + static_cast<std::ptrdiff_t>(front_ + shape_.size()));
    const std::int64_t at = flat_of(picked, strides_of(shape_));
    Position source;
    std::size_t next = 0;  // dimension of the result that is not the indices'
    for (std::size_t d = 0; d < indexed_.size(); ++d) {
      if (indexed_[d] > 0) {
        source.push_back(wrapped(operands_[indexed_[d]]->get(broadcast_[indexed_[d] - 1](at)), shape[d]));
        continue;
      }
      if (next == front_) next += shape_.size();
      source.push_back(result[next++]);
    }
    return source;
  }

 private:
  const Node& node_;
  std::span<const Tensor* const> operands_;
  std::size_t dimension_ = 0;
  std::vector<std::size_t> indexed_;  // by dimension: the operand that indexes it, or 0
  std::vector<std::int64_t> shape_;   // of the indices, broadcast
  std::vector<BroadcastIndex> broadcast_;
  std::size_t front_ = 0;             // where the indices' dimensions stand in the result
};

}  // namespace

Result<std::vector<Tensor>> indexing_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Picker picker(call, operands);
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.results[0]);
  const std::vector<std::int64_t> strides = strides_of(result.shape()), from = strides_of(operands[0]->shape());
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    const Position source = picker.source(position_of(i, strides), i);
    for (std::size_t d = 0; d < source.size(); ++d) {
      if (source[d] < 0 || source[d] >= operands[0]->shape()[d]) {
        return bad_input("position " + std::to_string(source[d]) + " is outside of dimension " + std::to_string(d));
      }
    }
    result.set(i, operands[0]->get(flat_of(source, from)));
  }
  return results;
}

}  // namespace meshwright
