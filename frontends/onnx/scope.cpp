#include "scope.h"

#include <charconv>

#include "translate.h"

namespace meshwright::onnx {

namespace {

template <class T>
const T* find(const ModelNode& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

// The decimal number that a person wrote where the file has the nearest float32: 1e-05, not 9.999999747378752e-06.
double shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(value));
  double result = value;
  std::from_chars(text, end.ptr, result);
  return result;
}

// Strides of `to` seen through `strides` of `from`, or none where the elements would have to move.
std::optional<Shape> strides_of_view(const Shape& from, const Shape& strides, const Shape& to) {
  Shape result(to.size(), 1);
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    std::int64_t left = from[i], right = to[j];
    const std::size_t first = i, first_to = j;
    while (left != right) {
      if (left < right) {
        if (++i == from.size()) return std::nullopt;
        left *= from[i];
      } else {
        if (++j == to.size()) return std::nullopt;
        right *= to[j];
      }
    }
    std::int64_t inner = 0;  // the stride of the last dimension of the group that is not of size 1
    for (std::size_t d = i + 1; d-- > first;) {
      if (from[d] == 1) continue;
      if (inner == 0) inner = strides[d];
      for (std::size_t next = d; next-- > first;) {
        if (from[next] == 1) continue;
        if (strides[next] != strides[d] * from[d]) return std::nullopt;
        break;
      }
    }
    if (inner == 0) inner = 1;
    for (std::size_t d = j + 1; d-- > first_to;) {
      result[d] = inner;
      inner *= to[d];
    }
    ++i;
    ++j;
  }
  return result;
}

}  // namespace

std::int64_t Scope::opset() const { return translator_.model_.opset; }
const Options& Scope::options() const { return translator_.options_; }

TensorType Scope::type(std::size_t i) const {
  if (!has(i)) refuse("its operand " + std::to_string(i) + " is missing");
  return translator_.type(node.inputs[i]);
}

const Shape& Scope::shape(std::size_t i) const {
  if (!has(i)) refuse("its operand " + std::to_string(i) + " is missing");
  return translator_.type(node.inputs[i]).shape;
}

ValueId Scope::value(std::size_t i) {
  if (!has(i)) refuse("its operand " + std::to_string(i) + " is missing");
  return translator_.value(node.inputs[i]);
}

const Literal* Scope::literal(std::size_t i) const { return has(i) ? translator_.literal(node.inputs[i]) : nullptr; }

const Literal* Scope::setting(std::size_t i) const {
  if (const Literal* known = literal(i); known != nullptr || !has(i)) return known;
  const auto found = translator_.constants_.short_reals.find(node.inputs[i]);
  return found == translator_.constants_.short_reals.end() ? nullptr : &found->second;
}

std::vector<std::int64_t> Scope::known_integers(std::size_t i) const {
  const Literal* known = literal(i);
  if (known == nullptr || known->is_real()) {
    refuse("its operand '" + (has(i) ? node.inputs[i] : std::to_string(i)) +
           "' decides a shape and is computed from the data; every shape must be a fixed number");
  }
  return known->integers;
}

std::optional<double> Scope::scalar(std::size_t i) const {
  const Literal* known = literal(i);
  if (known == nullptr || known->size() != 1) return std::nullopt;
  // A scalar that the file holds under a name of a module may be trained.
  if (known->is_real() && is_weight(i) && !translator_.constants_.of_nodes.contains(node.inputs[i]) &&
      !is_made_up(node.inputs[i]) && node.inputs[i].find('.') != std::string::npos) {
    return std::nullopt;
  }
  return known->is_real() && known->type.dtype != DType::float64 ? shortest(known->reals[0]) : known->number(0);
}

bool Scope::is_weight(std::size_t i) const { return has(i) && translator_.constants_.stored.contains(node.inputs[i]); }
bool Scope::is_turned(std::size_t i) const { return has(i) && translator_.constants_.turned.contains(node.inputs[i]); }

std::int64_t Scope::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* value = find<std::int64_t>(node, name);
  return value ? *value : otherwise;
}

double Scope::number(std::string_view name, double otherwise) const {
  const auto* value = find<double>(node, name);
  return value ? shortest(*value) : otherwise;
}

std::string Scope::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = find<std::string>(node, name);
  return value ? *value : std::string(otherwise);
}

std::vector<std::int64_t> Scope::integers(std::string_view name) const {
  const auto* value = find<std::vector<std::int64_t>>(node, name);
  return value ? *value : std::vector<std::int64_t>{};
}

std::optional<std::vector<std::int64_t>> Scope::list(std::string_view name, std::size_t i) const {
  if (const auto* value = find<std::vector<std::int64_t>>(node, name)) return *value;
  if (!has(i)) return std::nullopt;
  return known_integers(i);
}

std::size_t Scope::axis(std::int64_t axis, std::int64_t rank) const {
  const auto found = from_front(axis, rank);
  if (!found)
    refuse("its axis " + std::to_string(axis) + " is outside of a tensor of " + std::to_string(rank) + " dimensions");
  return *found;
}

ValueId Scope::emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes,
                    const TensorType& result) {
  return emit(op, operands, std::move(attributes), std::vector<TensorType>{result})[0];
}

std::vector<ValueId> Scope::emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes,
                                 const std::vector<TensorType>& results) {
  return translator_.emit(op, operands, std::move(attributes), results);
}

TensorType Scope::type_of(ValueId id) const { return translator_.graph_.type(id); }

ValueId Scope::view(ValueId id, const Shape& shape) {
  const TensorType type = type_of(id);
  if (type.shape == shape) return id;
  const auto known = translator_.strides_.find(id);
  std::optional<Shape> strides;
  if (known != translator_.strides_.end()) {
    strides = strides_of_view(type.shape, known->second, shape);
    if (!strides) id = emit("aten.clone", {{"self", id}}, {{"memory_format", std::string("contiguous")}}, type);
  }
  const ValueId result = emit("aten.view", {{"self", id}}, {{"size", shape}}, {type.dtype, shape});
  if (strides && *strides != strides_for(shape)) translator_.strides_[result] = *strides;
  return result;
}

ValueId Scope::permute(ValueId id, const std::vector<std::int64_t>& order) {
  const TensorType type = type_of(id);
  const auto known = translator_.strides_.find(id);
  const Shape from = known != translator_.strides_.end() ? known->second : strides_for(type.shape);
  TensorType turned{type.dtype, {}};
  Shape strides;
  std::vector<std::size_t> moved;
  for (std::size_t i = 0; i < order.size(); ++i) {
    turned.shape.push_back(type.shape[static_cast<std::size_t>(order[i])]);
    strides.push_back(from[static_cast<std::size_t>(order[i])]);
    if (order[i] != static_cast<std::int64_t>(i)) moved.push_back(i);
  }
  if (moved.empty()) return id;
  ValueId result = kNoId;
  if (moved.size() == 2) {
    result =
        emit("aten.transpose.int", {{"self", id}},
             {{"dim0", static_cast<std::int64_t>(moved[0])}, {"dim1", static_cast<std::int64_t>(moved[1])}}, turned);
  } else {
    result = emit("aten.permute", {{"self", id}}, {{"dims", order}}, turned);
  }
  translator_.strides_[result] = strides;
  return result;
}

ValueId Scope::cast(ValueId id, DType dtype) {
  TensorType type = type_of(id);
  if (type.dtype == dtype) return id;
  type.dtype = dtype;
  return emit("aten._to_copy", {{"self", id}}, {{"dtype", std::string(meshwright::name(dtype))}}, type);
}

void Scope::bind(std::size_t output, ValueId id) {
  if (!wants(output)) return;
  const std::string& name = node.outputs[output];
  Translator::Slot& slot = translator_.slots_[name];
  slot.type = type_of(id);
  slot.id = id;
  Value& value = translator_.graph_.values[id];
  const bool made_here = value.producer != kNoId && value.producer >= translator_.first_of_current_;
  if (made_here) value.name = name;
}

void Scope::bind_sequence(std::vector<ValueId> tensors) {
  translator_.slots_[node.outputs.at(0)];
  translator_.sequences_[node.outputs.at(0)] = std::move(tensors);
}

std::vector<ValueId> Scope::sequence(std::size_t i) const {
  const auto found = has(i) ? translator_.sequences_.find(node.inputs[i]) : translator_.sequences_.end();
  if (found == translator_.sequences_.end())
    refuse("its operand " + std::to_string(i) + " is no sequence whose tensors are known");
  return found->second;
}

void Scope::mutate(const std::string& buffer, ValueId id) {
  translator_.graph_.outputs.push_back({OutputKind::buffer_mutation, id, buffer});
}

Shape Scope::broadcast(const Shape& a, const Shape& b) const {
  const std::optional<Shape> shape = onnx::broadcast(a, b);
  if (!shape)
    refuse("its operands of shapes " + to_string(TensorType{DType::float32, a}).substr(7) + " and " +
           to_string(TensorType{DType::float32, b}).substr(7) + " can't be broadcast");
  return *shape;
}

}  // namespace meshwright::onnx
