// Attention and rotary positions of opset 23.
#include <cmath>

#include "../scope.h"

namespace meshwright::onnx {

namespace {

// [B, S, heads * width] as [B, heads, S, width]; what has 4 dimensions is that already.
ValueId by_heads(Scope& scope, std::size_t i, const char* heads_attribute) {
  const Shape shape = scope.shape(i);
  if (shape.size() == 4) return scope.value(i);
  const std::int64_t heads = scope.integer(heads_attribute, 0);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    scope.refuse(std::string("its operand ") + std::to_string(i) + " must have 4 dimensions, or 3 and " +
                 heads_attribute);
  return scope.permute(scope.view(scope.value(i), {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

void translate_attention(Scope& scope) {
  if (scope.has(4) || scope.has(5) || scope.wants(1) || scope.wants(2))
    scope.refuse("keys and values of the past are not supported; export the model without a cache");
  if (scope.wants(3)) scope.refuse("its scores are used as a result, which is not supported");
  if (scope.number("softcap", 0) != 0) scope.refuse("a softcap is not supported");
  const ValueId query = by_heads(scope, 0, "q_num_heads"), key = by_heads(scope, 1, "kv_num_heads"),
                value = by_heads(scope, 2, "kv_num_heads");
  const TensorType q = scope.type_of(query), k = scope.type_of(key), v = scope.type_of(value);
  if (k.shape[1] < 1 || q.shape[1] % k.shape[1] != 0 || k.shape[3] != q.shape[3] || k.shape[2] != v.shape[2]) {
    scope.refuse("queries of " + to_string(q) + ", keys of " + to_string(k) + " and values of " + to_string(v) +
                 " do not go together");
  }
  const TensorType type{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}};
  Attributes attributes;
  if (scope.integer("is_causal", 0) != 0) attributes["is_causal"] = true;
  const double usual = 1 / std::sqrt(static_cast<double>(q.shape[3]));
  const double scale = scope.number("scale", usual);
  attributes["scale"] = std::fabs(scale - usual) < 1e-6 * usual ? usual : scale;
  if (q.shape[1] != k.shape[1]) attributes["enable_gqa"] = true;
  const ValueId mask = scope.has(3) ? scope.value(3) : kNoId;
  const ValueId result =
      scope.emit("aten.scaled_dot_product_attention",
                 {{"query", query}, {"key", key}, {"value", value}, {"attn_mask", mask}}, attributes, type);
  if (scope.shape(0).size() == 4) return scope.bind(0, result);
  scope.bind(0, scope.view(scope.permute(result, {0, 2, 1, 3}),
                           {type.shape[0], type.shape[2], type.shape[1] * type.shape[3]}));
}

// x1 cos - x2 sin, x1 sin + x2 cos, where x1 and x2 are the halves of what is turned.
void translate_rotary(Scope& scope) {
  if (scope.integer("interleaved", 0) != 0) scope.refuse("interleaved pairs are not supported");
  const Shape outer = scope.shape(0);
  const ValueId input = by_heads(scope, 0, "num_heads");
  const TensorType whole = scope.type_of(input);
  const std::int64_t width = whole.shape[3], turned = scope.integer("rotary_embedding_dim", 0) == 0
                                                          ? width
                                                          : scope.integer("rotary_embedding_dim", 0);
  if (turned > width || turned % 2 != 0) scope.refuse("its rotary_embedding_dim does not fit");
  TensorType half = whole;
  half.shape[3] = turned / 2;
  const auto part = [&](std::int64_t start, std::int64_t count) {
    TensorType type = whole;
    type.shape[3] = count;
    return scope.emit("aten.slice.Tensor", {{"self", input}},
                      {{"dim", std::int64_t{3}}, {"start", start}, {"end", start + count}}, type);
  };
  // [positions, turned / 2] picked by position, or [B, S, turned / 2] as it is; then with a dimension for the heads.
  const auto table = [&](std::size_t i) {
    ValueId value = scope.value(i);
    TensorType type = scope.type(i);
    if (scope.has(3)) {
      type.shape = scope.shape(3);
      type.shape.push_back(turned / 2);
      value = scope.emit("aten.embedding", {{"weight", value}, {"indices", scope.value(3)}}, {}, type);
    }
    if (type.shape.size() != 3 || type.shape[2] != turned / 2) scope.refuse("its tables do not go with its operand");
    type.shape.insert(type.shape.begin() + 1, 1);
    return scope.emit("aten.unsqueeze", {{"self", value}}, {{"dim", std::int64_t{1}}}, type);
  };
  const auto times = [&](ValueId a, ValueId b) {
    return scope.emit("aten.mul.Tensor", {{"self", a}, {"other", b}}, {}, half);
  };
  const ValueId first = part(0, turned / 2), second = part(turned / 2, turned / 2), cosine = table(1), sine = table(2);
  const ValueId real =
      scope.emit("aten.sub.Tensor", {{"self", times(first, cosine)}, {"other", times(second, sine)}}, {}, half);
  const ValueId imaginary =
      scope.emit("aten.add.Tensor", {{"self", times(first, sine)}, {"other", times(second, cosine)}}, {}, half);
  std::vector<Operand> pieces = {{"tensors.0", real}, {"tensors.1", imaginary}};
  if (turned < width) pieces.push_back({"tensors.2", part(turned, width - turned)});
  const ValueId result = scope.emit("aten.cat", pieces, {{"dim", std::int64_t{3}}}, whole);
  scope.bind(0, outer.size() == 4 ? result : scope.view(scope.permute(result, {0, 2, 1, 3}), outer));
}

}  // namespace

void add_attention(Translations& all) {
  all["Attention"] = translate_attention;
  all["RotaryEmbedding"] = translate_rotary;
}

}  // namespace meshwright::onnx
