#include <algorithm>
#include <cstring>

#include "join.h"

namespace meshwright {

std::size_t joint_dimension(const Node& node, std::int64_t rank) {
  const std::int64_t at = node.integer("dim", 0);
  return static_cast<std::size_t>(at < 0 ? at + rank : at);
}

namespace {

// Elements from_start + i * from_step of one tensor go to to_start + i * to_step of another, along one dimension.
struct Block {
  std::size_t dimension = 0;
  std::int64_t from_start = 0, from_step = 1;
  std::int64_t to_start = 0, to_step = 1;
  std::int64_t count = 0;
};

// Whether `count` steps from `start` stay inside of a dimension.
bool inside(std::int64_t extent, std::int64_t start, std::int64_t step, std::int64_t count) {
  return count == 0 || (start >= 0 && step > 0 && start + (count - 1) * step < extent);
}

// Errors: bad_input, where the tensors differ elsewhere too or the block reaches out of one of them, as it does where a
// wrong rule shards what is cut or joined.
Status copy_block(const Tensor& from, Tensor& to, const Block& block) {
  std::vector<std::int64_t> expected = from.shape();
  if (block.dimension < expected.size() && expected.size() == to.shape().size()) expected[block.dimension] = to.shape()[block.dimension];
  if (expected != to.shape() || block.dimension >= expected.size() ||
      !inside(from.shape()[block.dimension], block.from_start, block.from_step, block.count) ||
      !inside(to.shape()[block.dimension], block.to_start, block.to_step, block.count)) {
    return bad_input("a block of " + std::to_string(block.count) + " along dimension " + std::to_string(block.dimension) +
                     " does not go from " + to_string(from.type()) + " to " + to_string(to.type()));
  }
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < to.shape().size(); ++d) (d < block.dimension ? outer : inner) *= d == block.dimension ? 1 : to.shape()[d];
  const std::int64_t from_extent = from.shape()[block.dimension], to_extent = to.shape()[block.dimension];
  const std::int64_t size = size_bytes(to.type().dtype);
  const bool joined = block.from_step == 1 && block.to_step == 1, alike = from.type().dtype == to.type().dtype;
  const std::int64_t steps = joined ? std::min<std::int64_t>(block.count, 1) : block.count, run = joined ? block.count * inner : inner;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < steps && run > 0; ++i) {
      const std::int64_t source = (o * from_extent + block.from_start + i * block.from_step) * inner;
      const std::int64_t target = (o * to_extent + block.to_start + i * block.to_step) * inner;
      if (alike) {
        std::memcpy(to.bytes().data() + target * size, from.bytes().data() + source * size, static_cast<std::size_t>(run * size));
      } else {
        for (std::int64_t k = 0; k < run; ++k) to.set(target + k, from.get(source + k));
      }
    }
  }
  return Done{};
}

std::int64_t slice_start(const Node& node, std::int64_t size) {
  const std::int64_t start = node.integer(node.op.starts_with("aten.select") ? "index" : "start", 0);
  return std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
}

// A tensor of the same elements with one more dimension of size 1 at `dimension`, so that a select is a slice.
Tensor with_unit_dimension(const Tensor& tensor, std::size_t dimension) {
  TensorType type = tensor.type();
  type.shape.insert(type.shape.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
  Tensor wider(type);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) wider.set(i, tensor.get(i));
  return wider;
}

// Into `result`, of the type of what is cut.
Result<Tensor> slice(const OpCall& call, const Tensor& operand, Tensor result) {
  const std::size_t at = joint_dimension(call.node, operand.type().rank());
  const std::int64_t count = result.shape()[at];
  const Status copied = copy_block(
      operand, result, {at, slice_start(call.node, operand.shape()[at]), call.node.integer("step", 1), 0, 1, count});
  if (!copied) return copied.error();
  return result;
}

Result<Tensor> select(const OpCall& call, const Tensor& operand) {
  const std::size_t at = joint_dimension(call.node, operand.type().rank());
  TensorType type = call.results[0];
  type.shape.insert(type.shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  const Result<Tensor> wide = slice(call, operand, Tensor::uncleared(type));
  if (!wide) return wide;
  Tensor result = call.zeros(0);
  for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, wide->get(i));
  return result;
}

// The gradient of a slice or a select: zeros around it.
Result<Tensor> spread(const OpCall& call, const Tensor& gradient) {
  Tensor result = call.zeros(0);
  const std::size_t at = joint_dimension(call.node, result.type().rank());
  const Status copied = copy_block(
      gradient, result, {at, 0, 1, slice_start(call.node, result.shape()[at]), call.node.integer("step", 1), gradient.shape()[at]});
  if (!copied) return copied.error();
  return result;
}

Result<std::vector<Tensor>> cat(const OpCall& call, std::span<const Tensor* const> operands) {
  Tensor joint = call.zeros(0);
  const std::size_t at = joint_dimension(call.node, joint.type().rank());
  std::int64_t start = 0;
  for (const Tensor* piece : operands) {
    const std::int64_t count = piece->shape()[at];
    if (const Status copied = copy_block(*piece, joint, {at, 0, 1, start, 1, count}); !copied) return copied.error();
    start += count;
  }
  return listed(std::move(joint));
}

// split, split_with_sizes, chunk: the pieces' sizes stand in their types.
Result<std::vector<Tensor>> split(const OpCall& call, const Tensor& operand) {
  const std::size_t at = joint_dimension(call.node, operand.type().rank());
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const std::int64_t count = call.results[i].shape[at];
    const Status copied = copy_block(operand, pieces.emplace_back(call.result(i)), {at, start, 1, 0, 1, count});
    if (!copied) return copied.error();
    start += count;
  }
  return pieces;
}

Result<std::vector<Tensor>> stack(const OpCall& call, std::span<const Tensor* const> operands) {
  Tensor joint = call.zeros(0);
  const std::size_t at = joint_dimension(call.node, joint.type().rank());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Block block{at, 0, 1, static_cast<std::int64_t>(i), 1, 1};
    if (const Status copied = copy_block(with_unit_dimension(*operands[i], at), joint, block); !copied) return copied.error();
  }
  return listed(std::move(joint));
}

Result<std::vector<Tensor>> unbind(const OpCall& call, const Tensor& operand) {
  const std::size_t at = joint_dimension(call.node, operand.type().rank());
  std::vector<Tensor> pieces;
  for (const TensorType& type : call.results) {
    Tensor piece = with_unit_dimension(Tensor(type), at);
    const Block block{at, static_cast<std::int64_t>(pieces.size()), 1, 0, 1, 1};
    if (const Status copied = copy_block(operand, piece, block); !copied) return copied.error();
    Tensor& narrow = pieces.emplace_back(type);
    for (std::int64_t i = 0; i < narrow.elements(); ++i) narrow.set(i, piece.get(i));
  }
  return pieces;
}

Result<Tensor> evaluate_one(const OpCall& call, const Tensor& operand) {
  const std::string& op = call.node.op;
  if (op == "aten.slice.Tensor") return slice(call, operand, call.result(0));
  if (op == "aten.select.int") return select(call, operand);
  if (op == "aten.slice_backward") return spread(call, operand);
  return spread(call, with_unit_dimension(operand, joint_dimension(call.node, call.results[0].rank())));
}

}  // namespace

Result<std::vector<Tensor>> join_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const std::string& op = call.node.op;
  if (op == "aten.cat") return cat(call, operands);
  if (op == "aten.stack") return stack(call, operands);
  if (op == "aten.unbind.int") return unbind(call, *operands[0]);
  if (op.starts_with("aten.split") || op == "aten.chunk") return split(call, *operands[0]);
  Result<Tensor> result = evaluate_one(call, *operands[0]);
  if (!result) return result.error();
  return listed(*std::move(result));
}

namespace {

ValueId emit_slice(const GradientCall& call, ValueId gradient, std::size_t dimension, std::int64_t start, const TensorType& type) {
  return call.build.emit("aten.slice.Tensor", {{"self", gradient}},
                         {{"dim", static_cast<std::int64_t>(dimension)}, {"start", start}, {"end", start + type.shape[dimension]}},
                         type);
}

// Of unequal pieces: one split, which cuts the dimension as the concatenation does, where a slice may cut it finer.
std::vector<ValueId> unequal_cat_gradient(const GradientCall& call) {
  std::vector<TensorType> types;
  std::vector<std::int64_t> sizes;
  const std::size_t at = joint_dimension(call.node, call.type(call.result_gradients[0]).rank());
  for (const Operand& operand : call.node.operands) {
    types.push_back(call.type(operand.value));
    sizes.push_back(types.back().shape[at]);
  }
  std::vector<ValueId> gradients = call.build.emit("aten.split_with_sizes", {{"self", call.result_gradients[0]}},
                                                   {{"split_sizes", sizes}, {"dim", static_cast<std::int64_t>(at)}}, types);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!call.wanted[i]) gradients[i] = kNoId;
  }
  return gradients;
}

std::vector<ValueId> cat_gradient(const GradientCall& call) {
  const bool equal = std::ranges::all_of(call.node.operands, [&](const Operand& operand) {
    return call.type(operand.value) == call.type(call.node.operands[0].value);
  });
  if (!equal) return unequal_cat_gradient(call);
  std::vector<ValueId> gradients;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
    const TensorType& type = call.type(call.node.operands[i].value);
    const std::size_t at = joint_dimension(call.node, type.rank());
    gradients.push_back(call.wanted[i] ? emit_slice(call, call.result_gradients[0], at, start, type) : kNoId);
    start += type.shape[at];
  }
  return gradients;
}

std::vector<ValueId> stack_gradient(const GradientCall& call) {
  std::vector<ValueId> gradients;
  const auto dim = static_cast<std::int64_t>(joint_dimension(call.node, call.type(call.result_gradients[0]).rank()));
  for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
    const ValueId piece = !call.wanted[i] ? kNoId
                                          : call.build.emit("aten.select.int", {{"self", call.result_gradients[0]}},
                                                            {{"dim", dim}, {"index", static_cast<std::int64_t>(i)}},
                                                            call.type(call.node.operands[i].value));
    gradients.push_back(piece);
  }
  return gradients;
}

// A piece that nobody used has a gradient of zeros.
ValueId split_gradient(const GradientCall& call, const TensorType& type) {
  std::vector<Operand> pieces;
  for (std::size_t i = 0; i < call.node.results.size(); ++i) {
    ValueId gradient = call.result_gradients[i];
    if (gradient == kNoId) gradient = call.build.emit("aten.zeros", {}, {}, call.type(call.node.results[i]));
    pieces.push_back({"tensors." + std::to_string(i), gradient});
  }
  const char* op = call.node.op == "aten.unbind.int" ? "aten.stack" : "aten.cat";
  return call.build.emit(op, pieces, {{"dim", static_cast<std::int64_t>(joint_dimension(call.node, type.rank()))}}, type);
}

}  // namespace

Result<std::vector<ValueId>> join_gradient(const GradientCall& call) {
  const std::string& op = call.node.op;
  if (op == "aten.cat") return cat_gradient(call);
  if (op == "aten.stack") return stack_gradient(call);
  if (op.ends_with("_backward")) return bad_input("its op family states no gradient");
  const TensorType& type = call.type(call.node.operands[0].value);
  if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
  if (op == "aten.slice.Tensor" || op == "aten.select.int") {
    Attributes attributes = call.node.attributes;
    attributes["input_sizes"] = type.shape;
    const char* backward = op == "aten.slice.Tensor" ? "aten.slice_backward" : "aten.select_backward";
    return std::vector<ValueId>{call.build.emit(backward, {{"grad_output", call.result_gradients[0]}}, attributes, type)};
  }
  return std::vector<ValueId>{split_gradient(call, type)};
}

}  // namespace meshwright
