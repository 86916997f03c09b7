// Sequences of tensors, where each is known: how PyTorch's exporter writes a split before it is optimized.
#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_split_to_sequence(Scope& scope) {
  const TensorType type = scope.type(0);
  const std::size_t axis = scope.axis(scope.integer("axis", 0), type.rank());
  const std::int64_t size = type.shape[axis];
  std::vector<std::int64_t> sizes;
  if (!scope.has(1)) {
    sizes.assign(static_cast<std::size_t>(size), 1);
    if (scope.integer("keepdims", 1) == 0)
      scope.refuse("pieces without their dimension (keepdims 0) are not supported");
  } else {
    sizes = scope.known_integers(1);
    if (scope.shape(1).empty()) {
      const std::int64_t piece = sizes[0];
      if (piece < 1) scope.refuse("its pieces must have at least 1 element");
      sizes.clear();
      for (std::int64_t at = 0; at < size; at += piece) sizes.push_back(std::min(piece, size - at));
    }
  }
  std::vector<TensorType> types;
  std::int64_t all = 0;
  for (const std::int64_t piece : sizes) {
    types.push_back(type);
    types.back().shape[axis] = piece;
    all += piece;
  }
  if (all != size) scope.refuse("its pieces do not add up to the " + std::to_string(size) + " that it cuts");
  bool even = true;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    even &= sizes[i] == sizes[0] || (i + 1 == sizes.size() && sizes[i] < sizes[0]);
  const auto dim = static_cast<std::int64_t>(axis);
  scope.bind_sequence(even ? scope.emit("aten.split.Tensor", {{"self", scope.value(0)}},
                                        {{"split_size", sizes[0]}, {"dim", dim}}, types)
                           : scope.emit("aten.split_with_sizes", {{"self", scope.value(0)}},
                                        {{"split_sizes", sizes}, {"dim", dim}}, types));
}

void translate_sequence_construct(Scope& scope) {
  std::vector<ValueId> tensors;
  for (std::size_t i = 0; i < scope.node.inputs.size(); ++i) tensors.push_back(scope.value(i));
  scope.bind_sequence(std::move(tensors));
}

void translate_sequence_at(Scope& scope) {
  const std::vector<ValueId> tensors = scope.sequence(0);
  const std::vector<std::int64_t> position = scope.known_integers(1);
  const std::size_t at = scope.axis(position.at(0), static_cast<std::int64_t>(tensors.size()));
  scope.bind(0, tensors[at]);
}

void translate_concat_from_sequence(Scope& scope) {
  const std::vector<ValueId> tensors = scope.sequence(0);
  if (tensors.empty()) scope.refuse("its sequence is empty");
  TensorType type = scope.type_of(tensors[0]);
  const bool stacks = scope.integer("new_axis", 0) != 0;
  const std::size_t axis = scope.axis(scope.integer("axis", 0), type.rank() + (stacks ? 1 : 0));
  const auto dim = static_cast<std::int64_t>(axis);
  if (stacks) type.shape.insert(type.shape.begin() + dim, 0);
  std::vector<Operand> operands;
  type.shape[axis] = 0;
  for (ValueId tensor : tensors) {
    TensorType piece = scope.type_of(tensor);
    if (stacks) {
      piece.shape.insert(piece.shape.begin() + dim, 1);
      tensor = scope.emit("aten.unsqueeze", {{"self", tensor}}, {{"dim", dim}}, piece);
    }
    type.shape[axis] += piece.shape.at(axis);
    operands.push_back({"tensors." + std::to_string(operands.size()), tensor});
  }
  scope.bind(0, scope.emit("aten.cat", operands, {{"dim", dim}}, type));
}

}  // namespace

void add_sequences(Translations& all) {
  all["SplitToSequence"] = translate_split_to_sequence;
  all["SequenceConstruct"] = translate_sequence_construct;
  all["SequenceAt"] = translate_sequence_at;
  all["ConcatFromSequence"] = translate_concat_from_sequence;
}

}  // namespace meshwright::onnx
