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

// Finds, for a position of what is picked or added, the one of the table.
class Picker {
 public:
  Picker(const OpCall& call, std::span<const Tensor* const> operands) : node_(call.node), operands_(operands) {
    const std::int64_t dim = node_.integer("dim", 0);
    dimension_ = static_cast<std::size_t>(dim < 0 ? dim + operands[0]->type().rank() : dim);
    if (!is_index(node_)) return;
    indices_ = indices_of(call);
    for (std::size_t i = 1; i <= position_operands(node_); ++i)
      broadcast_.emplace_back(operands[i]->shape(), indices_.shape);
  }

  [[nodiscard]] Position source(const Position& picked, std::int64_t flat) const {
    const std::vector<std::int64_t>& shape = operands_[0]->shape();
    if (!is_index(node_)) {
      const std::int64_t at = is_gather(node_) ? flat : picked[dimension_];
      Position source = picked;
      source[dimension_] = wrapped(operands_[1]->get(at), shape[dimension_]);
      return source;
    }
    const auto first = picked.begin() + static_cast<std::ptrdiff_t>(indices_.front);
    const Position index(first, first + static_cast<std::ptrdiff_t>(indices_.shape.size()));
    const std::int64_t at = flat_of(index, strides_of(indices_.shape));
    Position source;
    std::size_t next = 0;  // dimension of what is picked that is not the indices'
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (const std::size_t operand = indices_.operand[d]; operand > 0) {
        source.push_back(wrapped(operands_[operand]->get(broadcast_[operand - 1](at)), shape[d]));
        continue;
      }
      if (next == indices_.front) next += indices_.shape.size();
      source.push_back(picked[next++]);
    }
    return source;
  }

 private:
  const Node& node_;
  std::span<const Tensor* const> operands_;
  std::size_t dimension_ = 0;
  Indices indices_;
  std::vector<BroadcastIndex> broadcast_;
};

}  // namespace

Result<std::vector<Tensor>> indexing_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  if (Status status = check_indexing(call); !status) return status.error();
  const bool add = adds(call.node);
  if (add && call.operands[0] != call.results[0]) return bad_input("the result has another type than what is added to");
  std::vector<Tensor> results;
  Tensor& result = add ? results.emplace_back(*operands[0]) : results.emplace_back(call.zeros(0));
  const std::vector<std::int64_t> picked = picked_shape(call);
  const BroadcastIndex value_at(add ? operands.back()->shape() : picked, picked);
  const Picker picker(call, operands);
  const double alpha = call.node.number("alpha", 1);
  const std::vector<std::int64_t>& table = operands[0]->shape();
  const std::vector<std::int64_t> strides = strides_of(picked), table_strides = strides_of(table);
  const std::int64_t count = TensorType{DType::float64, picked}.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const Position source = picker.source(position_of(i, strides), i);
    for (std::size_t d = 0; d < source.size(); ++d) {
      if (source[d] < 0 || source[d] >= table[d]) {
        return bad_input("position " + std::to_string(source[d]) + " is outside of dimension " + std::to_string(d));
      }
    }
    const std::int64_t at = flat_of(source, table_strides);
    if (add) {
      const double value = operands.back()->get(value_at(i));
      result.set(at, overwrites(call.node) ? value : result.get(at) + alpha * value);
    } else {
      result.set(i, operands[0]->get(at));
    }
  }
  return results;
}

}  // namespace meshwright
