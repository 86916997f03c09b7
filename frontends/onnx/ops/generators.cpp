// Tensors made from nothing but sizes, where they are too large to be computed while reading.
#include <algorithm>
#include <cmath>

#include "../onnx_types.h"
#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_constant_of_shape(Scope& scope) {
  TensorType type{DType::float32, scope.known_integers(0)};
  Attribute filling = 0.0;
  if (const auto value = scope.node.attributes.find("value"); value != scope.node.attributes.end()) {
    const auto* stored = std::get_if<StoredTensor>(&value->second);
    if (stored == nullptr || stored->type.elements() != 1 || stored->external)
      scope.refuse("its value must be one number");
    Tensor tensor(stored->type);
    std::copy_n(reinterpret_cast<const std::byte*>(stored->bytes.data()), stored->bytes.size(), tensor.bytes().begin());
    const Literal literal = literal_of(tensor);
    type.dtype = stored->type.dtype;
    filling = literal.is_real() ? Attribute(literal.reals[0]) : Attribute(literal.integers[0]);
  }
  scope.bind(
      0, scope.emit("aten.full", {},
                    {{"size", type.shape}, {"fill_value", filling}, {"dtype", std::string(name(type.dtype))}}, type));
}

void translate_range(Scope& scope) {
  const auto start = scope.scalar(0), limit = scope.scalar(1), delta = scope.scalar(2);
  if (!start || !limit || !delta || *delta == 0)
    scope.refuse("its start, limit and step must be known; every shape must be a fixed number");
  const DType dtype = scope.type(0).dtype;
  const auto number = [&](double value) {
    return is_floating(dtype) ? Attribute(value) : Attribute(whole_number(value));
  };
  const std::int64_t count = whole_number(std::max(std::ceil((*limit - *start) / *delta), 0.0));
  scope.bind(0, scope.emit("aten.arange.start_step", {},
                           {{"start", number(*start)},
                            {"end", number(*limit)},
                            {"step", number(*delta)},
                            {"dtype", std::string(name(dtype))}},
                           {dtype, {count}}));
}

// Ones on a diagonal, from positions: row + k = column.
void translate_eye(Scope& scope) {
  const Shape shape = scope.shape(0);
  if (shape.size() != 2) scope.refuse("its operand must be a matrix");
  const auto dtype = dtype_of(scope.integer("dtype", 0)).value_or(scope.type(0).dtype);
  const auto line = [&](std::int64_t start, std::int64_t count) {
    return scope.emit(
        "aten.arange.start_step", {},
        {{"start", start}, {"end", start + count}, {"step", std::int64_t{1}}, {"dtype", std::string("int64")}},
        {DType::int64, {count}});
  };
  const ValueId rows = scope.emit("aten.unsqueeze", {{"self", line(scope.integer("k", 0), shape[0])}},
                                  {{"dim", std::int64_t{1}}}, {DType::int64, {shape[0], 1}});
  const ValueId equal =
      scope.emit("aten.eq.Tensor", {{"self", rows}, {"other", line(0, shape[1])}}, {}, {DType::boolean, shape});
  scope.bind(0, scope.cast(equal, dtype));
}

// on_value where a class' number is that of the position along `axis`, off_value elsewhere.
void translate_one_hot(Scope& scope) {
  const std::vector<std::int64_t> depth = scope.known_integers(1);
  const Literal* values = scope.setting(2);
  if (depth.size() != 1 || values == nullptr || values->size() != 2)
    scope.refuse("its depth and its two values must be constants");
  TensorType type{scope.type(2).dtype, scope.shape(0)};
  const std::size_t axis = scope.axis(scope.integer("axis", -1), type.rank() + 1);
  Shape line(type.shape.size() + 1, 1);
  line[axis] = depth[0];
  const ValueId indices = scope.cast(scope.value(0), DType::int64);
  TensorType wide = scope.type_of(indices);
  wide.shape.insert(wide.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  type.shape.insert(type.shape.begin() + static_cast<std::ptrdiff_t>(axis), depth[0]);
  const ValueId column =
      scope.emit("aten.unsqueeze", {{"self", indices}}, {{"dim", static_cast<std::int64_t>(axis)}}, wide);
  const ValueId classes = scope.emit(
      "aten.arange.start_step", {},
      {{"start", std::int64_t{0}}, {"end", depth[0]}, {"step", std::int64_t{1}}, {"dtype", std::string("int64")}},
      {DType::int64, depth});
  const ValueId equal = scope.emit("aten.eq.Tensor", {{"self", column}, {"other", scope.view(classes, line)}}, {},
                                   {DType::boolean, type.shape});
  ValueId result = scope.cast(equal, type.dtype);
  const double off = values->number(0), on = values->number(1);
  const auto number = [&](double value) {
    return is_floating(type.dtype) ? Attribute(value) : Attribute(whole_number(value));
  };
  if (on - off != 1) result = scope.emit("aten.mul.Tensor", {{"self", result}}, {{"other", number(on - off)}}, type);
  if (off != 0) result = scope.emit("aten.add.Tensor", {{"self", result}}, {{"other", number(off)}}, type);
  scope.bind(0, result);
}

}  // namespace

void add_generators(Translations& all) {
  all["ConstantOfShape"] = translate_constant_of_shape;
  all["Range"] = translate_range;
  all["EyeLike"] = translate_eye;
  all["OneHot"] = translate_one_hot;
}

}  // namespace meshwright::onnx
