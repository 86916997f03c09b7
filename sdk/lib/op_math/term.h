// Arithmetic on the values of a graph under construction: `g * rsqrt(1.0 - x * x)` emits those nodes. How families write
// gradients that are formulas.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "broadcast.h"
#include "meshwright/graph_builder.h"

namespace meshwright {

// A value, and the builder of its graph, which outlives it.
class Term {
 public:
  Term(GraphBuilder& build, ValueId id) : build_(&build), id_(id) {}
  [[nodiscard]] ValueId id() const { return id_; }
  [[nodiscard]] TensorType type() const { return build_->type(id_); }
  [[nodiscard]] GraphBuilder& build() const { return *build_; }
  // A node with this value as its first operand, "self".
  [[nodiscard]] Term then(std::string op, Attributes attributes, const TensorType& type) const {
    return {*build_, build_->emit(std::move(op), {{"self", id_}}, std::move(attributes), type)};
  }
  [[nodiscard]] Term then(std::string op, Attributes attributes = {}) const {
    return then(std::move(op), std::move(attributes), type());
  }

 private:
  GraphBuilder* build_;
  ValueId id_;
};

// The dtype is that of the one that is floating; of two that are, the wider one, where a tensor of rank 0 does not count.
inline DType joint_dtype(const TensorType& a, const TensorType& b) {
  if (!is_floating(a.dtype) || !is_floating(b.dtype)) return is_floating(b.dtype) ? b.dtype : a.dtype;
  if ((a.rank() == 0) != (b.rank() == 0)) return a.rank() == 0 ? b.dtype : a.dtype;
  return size_bytes(b.dtype) > size_bytes(a.dtype) ? b.dtype : a.dtype;
}

// Of what two tensors are broadcast to.
inline TensorType joint_type(const TensorType& a, const TensorType& b) {
  TensorType joint{joint_dtype(a, b), a.shape};
  if (b.shape.size() > joint.shape.size()) joint.shape.insert(joint.shape.begin(), b.shape.size() - joint.shape.size(), 1);
  const std::size_t missing = joint.shape.size() - b.shape.size();
  for (std::size_t i = 0; i < b.shape.size(); ++i) {
    if (joint.shape[missing + i] == 1) joint.shape[missing + i] = b.shape[i];
  }
  return joint;
}

inline Term join(std::string op, Term a, Term b, const TensorType& type) {
  return {a.build(), a.build().emit(std::move(op), {{"self", a.id()}, {"other", b.id()}}, {}, type)};
}
inline Term join(std::string op, Term a, Term b) { return join(std::move(op), a, b, joint_type(a.type(), b.type())); }

inline Term operator+(Term a, Term b) { return join("aten.add.Tensor", a, b); }
inline Term operator-(Term a, Term b) { return join("aten.sub.Tensor", a, b); }
inline Term operator*(Term a, Term b) { return join("aten.mul.Tensor", a, b); }
inline Term operator/(Term a, Term b) { return join("aten.div.Tensor", a, b); }
inline Term operator-(Term a) { return a.then("aten.neg"); }
inline Term operator+(Term a, double number) { return a.then("aten.add.Tensor", {{"other", number}}); }
inline Term operator-(Term a, double number) { return a + -number; }
inline Term operator-(double number, Term a) { return a.then("aten.rsub.Scalar", {{"other", number}}); }
inline Term operator*(Term a, double number) { return number == 1 ? a : a.then("aten.mul.Tensor", {{"other", number}}); }
inline Term operator/(Term a, double number) { return number == 1 ? a : a.then("aten.div.Tensor", {{"other", number}}); }

inline Term exp(Term a) { return a.then("aten.exp"); }
inline Term log(Term a) { return a.then("aten.log"); }
inline Term rsqrt(Term a) { return a.then("aten.rsqrt"); }
inline Term sign(Term a) { return a.then("aten.sign"); }
inline Term sigmoid(Term a) { return a.then("aten.sigmoid"); }
inline Term pow(Term a, double exponent) { return a.then("aten.pow.Tensor_Scalar", {{"exponent", exponent}}); }

// Masks: "gt", "ge", "lt", "le", "eq", "ne" of two values, or of a value and a number.
inline Term compare(const char* how, Term a, Term b) {
  return join(std::string("aten.") + how + ".Tensor", a, b, {DType::boolean, joint_type(a.type(), b.type()).shape});
}
inline Term compare(const char* how, Term a, double number) {
  return a.then(std::string("aten.") + how + ".Scalar", {{"other", number}}, {DType::boolean, a.type().shape});
}
inline Term both(Term a, Term b) { return join("aten.logical_and", a, b); }
inline Term either(Term a, Term b) { return join("aten.logical_or", a, b); }
inline Term negation(Term mask) { return mask.then("aten.logical_not"); }

inline Term where(Term mask, Term a, Term b) {
  TensorType type = joint_type(a.type(), b.type());
  type.shape = joint_type(type, mask.type()).shape;
  return {a.build(), a.build().emit("aten.where.self", {{"condition", mask.id()}, {"self", a.id()}, {"other", b.id()}}, {}, type)};
}
inline Term zeros(GraphBuilder& build, const TensorType& type) { return {build, build.emit("aten.zeros", {}, {{"size", type.shape}}, type)}; }
// The value where the mask holds, zero elsewhere.
inline Term masked(Term mask, Term a) { return where(mask, a, zeros(a.build(), {a.type().dtype, {}})); }

inline Term cast(Term a, DType dtype) {
  if (a.type().dtype == dtype) return a;
  return a.then("aten._to_copy", {{"dtype", std::string(name(dtype))}}, {dtype, a.type().shape});
}
inline Term view(Term a, const std::vector<std::int64_t>& shape) {
  return a.type().shape == shape ? a : a.then("aten.view", {{"size", shape}}, {a.type().dtype, shape});
}
inline Term expand(Term a, const std::vector<std::int64_t>& shape) {
  return a.type().shape == shape ? a : a.then("aten.expand", {{"size", shape}}, {a.type().dtype, shape});
}
// Over `dims`, which stay as 1.
inline Term sum(Term a, const std::vector<std::int64_t>& dims) {
  TensorType type = a.type();
  for (const std::int64_t dim : dims) type.shape[static_cast<std::size_t>(dim)] = 1;
  return dims.empty() ? a : a.then("aten.sum.dim_IntList", {{"dim", dims}, {"keepdim", true}}, type);
}
inline Term sum_to(Term a, const TensorType& wanted) { return {a.build(), sum_to(a.build(), a.id(), wanted)}; }

}  // namespace meshwright
