// Ops by element. A constant of one element becomes a number in the node, as torch.export has it.
#include "../onnx_types.h"
#include "../scope.h"

namespace meshwright::onnx {

namespace {

Attribute number_for(double number, DType dtype) {
  if (is_floating(dtype)) return number;
  if (dtype == DType::boolean) return number != 0;
  return whole_number(number);
}

// The operand's number, if the other operand alone decides the result's shape.
std::optional<Attribute> number_beside(Scope& scope, std::size_t i, std::size_t other) {
  const auto number = scope.scalar(i);
  if (!number || scope.shape(i).size() > scope.shape(other).size() ||
      (scope.literal(other) != nullptr && scope.scalar(other)))
    return std::nullopt;
  return number_for(*number, scope.type(i).dtype);
}

const std::map<std::string, const char*, std::less<>>& unary_names() {
  static const std::map<std::string, const char*, std::less<>> all = {{"Relu", "aten.relu"},
                                                                      {"Sigmoid", "aten.sigmoid"},
                                                                      {"Tanh", "aten.tanh"},
                                                                      {"Exp", "aten.exp"},
                                                                      {"Log", "aten.log"},
                                                                      {"Sqrt", "aten.sqrt"},
                                                                      {"Reciprocal", "aten.reciprocal"},
                                                                      {"Abs", "aten.abs"},
                                                                      {"Neg", "aten.neg"},
                                                                      {"Sin", "aten.sin"},
                                                                      {"Cos", "aten.cos"},
                                                                      {"Erf", "aten.erf"},
                                                                      {"Sign", "aten.sign"},
                                                                      {"Floor", "aten.floor"},
                                                                      {"Ceil", "aten.ceil"},
                                                                      {"Round", "aten.round"},
                                                                      {"Tan", "aten.tan"},
                                                                      {"Sinh", "aten.sinh"},
                                                                      {"Cosh", "aten.cosh"},
                                                                      {"Atan", "aten.atan"},
                                                                      {"Asin", "aten.asin"},
                                                                      {"Acos", "aten.acos"},
                                                                      {"Softplus", "aten.softplus"},
                                                                      {"HardSwish", "aten.hardswish"},
                                                                      {"Mish", "aten.mish"},
                                                                      {"Not", "aten.logical_not"},
                                                                      {"BitwiseNot", "aten.bitwise_not"}};
  return all;
}

void translate_unary(Scope& scope) {
  scope.bind(0, scope.emit(unary_names().at(scope.node.op), {{"self", scope.value(0)}}, {}, scope.type(0)));
}

void translate_question(Scope& scope) {  // IsNaN, IsInf
  const bool nan = scope.node.op == "IsNaN";
  scope.bind(0, scope.emit(nan ? "aten.isnan" : "aten.isinf", {{"self", scope.value(0)}}, {},
                           {DType::boolean, scope.shape(0)}));
}

void translate_gelu(Scope& scope) {
  Attributes attributes;
  if (scope.text("approximate", "none") != "none") attributes["approximate"] = scope.text("approximate", "none");
  scope.bind(0, scope.emit("aten.gelu", {{"self", scope.value(0)}}, attributes, scope.type(0)));
}

// alpha x below 0, or a curve that goes to -alpha.
void translate_sloped(Scope& scope) {
  const std::string& op = scope.node.op;
  const char* name = op == "LeakyRelu" ? "aten.leaky_relu"
                     : op == "Elu"     ? "aten.elu"
                     : op == "Celu"    ? "aten.celu"
                                       : "aten.selu";
  Attributes attributes;
  if (op == "LeakyRelu") attributes["negative_slope"] = scope.number("alpha", 0.01);
  if (op == "Elu" || op == "Celu") attributes["alpha"] = scope.number("alpha", 1.0);
  scope.bind(0, scope.emit(name, {{"self", scope.value(0)}}, attributes, scope.type(0)));
}

void translate_hard_sigmoid(Scope& scope) {
  const double alpha = scope.number("alpha", 0.2), beta = scope.number("beta", 0.5);
  const TensorType type = scope.type(0);
  if (alpha > 0.16666 && alpha < 0.16667 && beta == 0.5)
    return scope.bind(0, scope.emit("aten.hardsigmoid", {{"self", scope.value(0)}}, {}, type));
  ValueId value = scope.emit("aten.mul.Tensor", {{"self", scope.value(0)}}, {{"other", alpha}}, type);
  value = scope.emit("aten.add.Tensor", {{"self", value}}, {{"other", beta}}, type);
  scope.bind(0, scope.emit("aten.clamp", {{"self", value}}, {{"min", 0.0}, {"max", 1.0}}, type));
}

void translate_softsign(Scope& scope) {
  const TensorType type = scope.type(0);
  const ValueId size = scope.emit("aten.abs", {{"self", scope.value(0)}}, {}, type);
  const ValueId below = scope.emit("aten.add.Tensor", {{"self", size}}, {{"other", 1.0}}, type);
  scope.bind(0, scope.emit("aten.div.Tensor", {{"self", scope.value(0)}, {"other", below}}, {}, type));
}

// relu(x) - slope relu(-x): the slope is broadcast as ONNX says, which PyTorch's prelu does not do.
void translate_prelu(Scope& scope) {
  const TensorType type = scope.type(0);
  (void)scope.broadcast(type.shape, scope.shape(1));
  const ValueId above = scope.emit("aten.relu", {{"self", scope.value(0)}}, {}, type);
  const ValueId negative = scope.emit("aten.neg", {{"self", scope.value(0)}}, {}, type);
  const ValueId below = scope.emit("aten.relu", {{"self", negative}}, {}, type);
  const ValueId sloped = scope.emit("aten.mul.Tensor", {{"self", below}, {"other", scope.value(1)}}, {}, type);
  scope.bind(0, scope.emit("aten.sub.Tensor", {{"self", above}, {"other", sloped}}, {}, type));
}

void translate_clip(Scope& scope) {
  const TensorType type = scope.type(0);
  Attributes attributes;
  std::vector<Operand> operands = {{"self", scope.value(0)}};
  const char* names[] = {"", "min", "max"};
  for (std::size_t i = 1; i <= 2; ++i) {
    if (!scope.has(i)) continue;
    if (product(scope.shape(i)) != 1 || scope.shape(i).size() > type.shape.size()) {
      scope.refuse("its bounds must be single numbers");
    }
    if (const auto number = scope.scalar(i))
      attributes[names[i]] = number_for(*number, type.dtype);
    else
      operands.push_back({names[i], scope.value(i)});
  }
  scope.bind(0, scope.emit(operands.size() > 1 ? "aten.clamp.Tensor" : "aten.clamp", operands, attributes, type));
}

ValueId emit_arithmetic(Scope& scope, const std::string& op, std::size_t a, std::size_t b) {
  TensorType type = scope.type(a);
  if (const auto number = number_beside(scope, b, a)) {
    return scope.emit("aten." + op + ".Tensor", {{"self", scope.value(a)}}, {{"other", *number}}, type);
  }
  if (const auto number = number_beside(scope, a, b)) {
    type = scope.type(b);
    const ValueId tensor = scope.value(b);
    if (op == "sub") return scope.emit("aten.rsub.Scalar", {{"self", tensor}}, {{"other", *number}}, type);
    if (op != "div") return scope.emit("aten." + op + ".Tensor", {{"self", tensor}}, {{"other", *number}}, type);
    if (is_floating(type.dtype)) {
      const ValueId inverse = scope.emit("aten.reciprocal", {{"self", tensor}}, {}, type);
      return scope.scalar(a) == 1.0 ? inverse
                                    : scope.emit("aten.mul.Tensor", {{"self", inverse}}, {{"other", *number}}, type);
    }
  }
  type.shape = scope.broadcast(scope.shape(a), scope.shape(b));
  return scope.emit("aten." + op + ".Tensor", {{"self", scope.value(a)}, {"other", scope.value(b)}}, {}, type);
}

void translate_arithmetic(Scope& scope) {
  const std::string& op = scope.node.op;
  if (op == "Div" && !is_floating(scope.type(0).dtype)) {  // ONNX divides integers towards zero
    TensorType type = scope.type(0);
    type.shape = scope.broadcast(scope.shape(0), scope.shape(1));
    const auto number = number_beside(scope, 1, 0);
    Attributes attributes = {{"rounding_mode", std::string("trunc")}};
    if (number) attributes["other"] = *number;
    return scope.bind(
        0, scope.emit(number ? "aten.div.Scalar_mode" : "aten.div.Tensor_mode",
                      {{"self", scope.value(0)}, {"other", number ? kNoId : scope.value(1)}}, attributes, type));
  }
  scope.bind(0, emit_arithmetic(scope, op == "Add" ? "add" : op == "Sub" ? "sub" : op == "Mul" ? "mul" : "div", 0, 1));
}

void translate_power(Scope& scope) {
  TensorType type = scope.type(0);
  if (const auto exponent = number_beside(scope, 1, 0)) {
    return scope.bind(
        0, scope.emit("aten.pow.Tensor_Scalar", {{"self", scope.value(0)}}, {{"exponent", *exponent}}, type));
  }
  type.shape = scope.broadcast(scope.shape(0), scope.shape(1));
  if (const auto base = number_beside(scope, 0, 1)) {
    return scope.bind(0, scope.emit("aten.pow.Scalar", {{"exponent", scope.value(1)}}, {{"self", *base}}, type));
  }
  scope.bind(0,
             scope.emit("aten.pow.Tensor_Tensor", {{"self", scope.value(0)}, {"exponent", scope.value(1)}}, {}, type));
}

void translate_remainder(Scope& scope) {
  TensorType type = scope.type(0);
  const std::string name = scope.integer("fmod", 0) != 0 ? "aten.fmod" : "aten.remainder";
  if (const auto number = number_beside(scope, 1, 0)) {
    return scope.bind(0, scope.emit(name + ".Scalar", {{"self", scope.value(0)}}, {{"other", *number}}, type));
  }
  type.shape = scope.broadcast(scope.shape(0), scope.shape(1));
  scope.bind(0, scope.emit(name + ".Tensor", {{"self", scope.value(0)}, {"other", scope.value(1)}}, {}, type));
}

void translate_comparison(Scope& scope) {
  struct Name {
    const char* straight;
    const char* turned;
  };
  static const std::map<std::string, Name, std::less<>> names = {{"Equal", {"eq", "eq"}},
                                                                 {"Less", {"lt", "gt"}},
                                                                 {"LessOrEqual", {"le", "ge"}},
                                                                 {"Greater", {"gt", "lt"}},
                                                                 {"GreaterOrEqual", {"ge", "le"}}};
  const Name& name = names.at(scope.node.op);
  if (const auto number = number_beside(scope, 1, 0)) {
    return scope.bind(0, scope.emit(std::string("aten.") + name.straight + ".Scalar", {{"self", scope.value(0)}},
                                    {{"other", *number}}, {DType::boolean, scope.shape(0)}));
  }
  if (const auto number = number_beside(scope, 0, 1)) {
    return scope.bind(0, scope.emit(std::string("aten.") + name.turned + ".Scalar", {{"self", scope.value(1)}},
                                    {{"other", *number}}, {DType::boolean, scope.shape(1)}));
  }
  scope.bind(0, scope.emit(std::string("aten.") + name.straight + ".Tensor",
                           {{"self", scope.value(0)}, {"other", scope.value(1)}}, {},
                           {DType::boolean, scope.broadcast(scope.shape(0), scope.shape(1))}));
}

void translate_logic(Scope& scope) {
  const std::string& op = scope.node.op;
  const std::string name = op == "And"          ? "aten.logical_and"
                           : op == "Or"         ? "aten.logical_or"
                           : op == "Xor"        ? "aten.logical_xor"
                           : op == "BitwiseAnd" ? "aten.bitwise_and.Tensor"
                           : op == "BitwiseOr"  ? "aten.bitwise_or.Tensor"
                                                : "aten.bitwise_xor.Tensor";
  const TensorType type{scope.type(0).dtype, scope.broadcast(scope.shape(0), scope.shape(1))};
  // A truth value that decides nothing: `And(mask, true)`.
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto truth = scope.scalar(i);
    const bool neutral = truth && ((op == "And" && *truth != 0) || ((op == "Or" || op == "Xor") && *truth == 0));
    if (neutral && scope.shape(1 - i) == type.shape) return scope.bind(0, scope.value(1 - i));
  }
  scope.bind(0, scope.emit(name, {{"self", scope.value(0)}, {"other", scope.value(1)}}, {}, type));
}

// Several operands: Min, Max, Sum, Mean.
void translate_several(Scope& scope) {
  const std::string& op = scope.node.op;
  if (scope.node.inputs.empty()) scope.refuse("it has no operands");
  if (scope.node.inputs.size() == 2 && (op == "Min" || op == "Max")) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (const auto number = number_beside(scope, i, 1 - i)) {
        return scope.bind(0, scope.emit("aten.clamp", {{"self", scope.value(1 - i)}},
                                        {{op == "Min" ? "max" : "min", *number}}, scope.type(1 - i)));
      }
    }
  }
  const std::string name = op == "Min" ? "aten.minimum" : op == "Max" ? "aten.maximum" : "aten.add.Tensor";
  ValueId value = scope.value(0);
  TensorType type = scope.type(0);
  for (std::size_t i = 1; i < scope.node.inputs.size(); ++i) {
    type.shape = scope.broadcast(type.shape, scope.shape(i));
    value = scope.emit(name, {{"self", value}, {"other", scope.value(i)}}, {}, type);
  }
  if (op == "Mean")
    value = scope.emit("aten.div.Tensor", {{"self", value}}, {{"other", static_cast<double>(scope.node.inputs.size())}},
                       type);
  scope.bind(0, value);
}

void translate_where(Scope& scope) {
  TensorType type = scope.type(1);
  const Shape of_values = scope.broadcast(scope.shape(1), scope.shape(2));
  type.shape = scope.broadcast(scope.shape(0), of_values);
  std::optional<double> first = scope.scalar(1), second = scope.scalar(2);
  if (scope.broadcast(scope.shape(0), second ? scope.shape(1) : Shape{}) != type.shape || (first && second))
    second.reset();
  if (scope.broadcast(scope.shape(0), first ? scope.shape(2) : Shape{}) != type.shape) first.reset();
  if (second) {
    return scope.bind(0, scope.emit("aten.where.ScalarOther", {{"condition", scope.value(0)}, {"self", scope.value(1)}},
                                    {{"other", number_for(*second, type.dtype)}}, type));
  }
  if (first && !scope.scalar(2)) {
    return scope.bind(0, scope.emit("aten.where.ScalarSelf", {{"condition", scope.value(0)}, {"other", scope.value(2)}},
                                    {{"self", number_for(*first, type.dtype)}}, type));
  }
  scope.bind(
      0, scope.emit("aten.where.self",
                    {{"condition", scope.value(0)}, {"self", scope.value(1)}, {"other", scope.value(2)}}, {}, type));
}

void translate_cast(Scope& scope) {
  if (scope.node.op == "CastLike") return scope.bind(0, scope.cast(scope.value(0), scope.type(1).dtype));
  const std::int64_t to = scope.integer("to", 0);
  const auto dtype = dtype_of(to);
  if (!dtype) scope.refuse("it makes a tensor of the type " + type_name(to) + ", which is not supported");
  scope.bind(0, scope.cast(scope.value(0), *dtype));
}

void translate_identity(Scope& scope) { scope.bind(0, scope.value(0)); }

void translate_dropout(Scope& scope) {
  const double ratio = scope.has(1) ? scope.scalar(1).value_or(-1) : 0.5;
  const double training = scope.has(2) ? scope.scalar(2).value_or(-1) : 0;
  if (ratio < 0 || training < 0) scope.refuse("its ratio and its training mode must be constants");
  if (training == 0 || ratio == 0) {
    if (scope.wants(1))
      scope.bind(1, scope.emit("aten.full", {},
                               {{"size", scope.shape(0)}, {"fill_value", true}, {"dtype", std::string("bool")}},
                               {DType::boolean, scope.shape(0)}));
    return translate_identity(scope);
  }
  const std::vector<ValueId> results =
      scope.emit("aten.native_dropout", {{"input", scope.value(0)}}, {{"p", ratio}, {"train", true}},
                 {scope.type(0), TensorType{DType::boolean, scope.shape(0)}});
  scope.bind(0, results[0]);
  scope.bind(1, results[1]);
}

}  // namespace

void add_pointwise(Translations& all) {
  for (const auto& [op, name] : unary_names()) all[op] = translate_unary;
  for (const char* op : {"IsNaN", "IsInf"}) all[op] = translate_question;
  for (const char* op : {"LeakyRelu", "Elu", "Celu", "Selu"}) all[op] = translate_sloped;
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) all[op] = translate_arithmetic;
  for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) all[op] = translate_comparison;
  for (const char* op : {"And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}) all[op] = translate_logic;
  for (const char* op : {"Min", "Max", "Sum", "Mean"}) all[op] = translate_several;
  for (const char* op : {"Cast", "CastLike"}) all[op] = translate_cast;
  all["Gelu"] = translate_gelu;
  all["HardSigmoid"] = translate_hard_sigmoid;
  all["Softsign"] = translate_softsign;
  all["PRelu"] = translate_prelu;
  all["Clip"] = translate_clip;
  all["Pow"] = translate_power;
  all["Mod"] = translate_remainder;
  all["Where"] = translate_where;
  all["Identity"] = translate_identity;
  all["Dropout"] = translate_dropout;
}

}  // namespace meshwright::onnx
