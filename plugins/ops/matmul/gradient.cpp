// PyTorch's formulas (derivatives.yaml: mm, bmm, addmm; linear and matmul through them): for C = A·B, dA = dC·Bᵀ and
// dB = Aᵀ·dC, each summed over what was broadcast. The factors are what is saved; views of them save nothing more.
#include <numeric>

#include "broadcast.h"
#include "matmul.h"
#include "numbers.h"

namespace meshwright {

namespace {

class Emitter {
 public:
  explicit Emitter(GraphBuilder& build) : build_(build) {}

  ValueId view(ValueId value, const std::vector<std::int64_t>& shape) {
    const TensorType& type = build_.type(value);
    if (type.shape == shape) return value;
    return build_.emit("aten.view", {{"self", value}}, {{"size", shape}}, TensorType{type.dtype, shape});
  }

  // All but the last dimension as one.
  ValueId folded(ValueId value) {
    const TensorType& type = build_.type(value);
    const std::int64_t columns = type.shape.back();
    return view(value, {std::accumulate(type.shape.begin(), type.shape.end() - 1, std::int64_t{1}, std::multiplies<>()),
                        columns});
  }

  // The last two dimensions change places.
  ValueId transposed(ValueId value) {
    TensorType type = build_.type(value);
    const std::int64_t last = type.rank() - 1;
    std::swap(type.shape[to_size(last)], type.shape[to_size(last - 1)]);
    if (type.rank() == 2) return build_.emit("aten.t", {{"self", value}}, {}, type);
    return build_.emit("aten.transpose.int", {{"self", value}}, {{"dim0", last - 1}, {"dim1", last}}, type);
  }

  // a·b for tensors of at least two dimensions, whose leading ones broadcast.
  ValueId product(ValueId a, ValueId b) {
    const TensorType &left = build_.type(a), &right = build_.type(b);
    if (left.rank() == 2 && right.rank() == 2) {
      const TensorType type{left.dtype, {left.shape[0], right.shape[1]}};
      return build_.emit("aten.mm", {{"self", a}, {"mat2", b}}, {}, type);
    }
    const bool batched = left.rank() == 3 && right.rank() == 3 && left.shape[0] == right.shape[0];
    TensorType type = left.rank() >= right.rank() ? left : right;
    const std::int64_t rank = type.rank();
    for (const TensorType* side : {&left, &right}) {
      for (std::int64_t i = 0; i + 2 < side->rank(); ++i) {
        std::int64_t& size = type.shape[to_size(rank - side->rank() + i)];
        size = std::max(size, side->shape[to_size(i)]);
      }
    }
    type.shape[to_size(rank - 2)] = left.shape[to_size(left.rank() - 2)];
    type.shape[to_size(rank - 1)] = right.shape.back();
    if (batched) return build_.emit("aten.bmm", {{"self", a}, {"mat2", b}}, {}, type);
    return build_.emit("aten.matmul", {{"self", a}, {"other", b}}, {}, type);
  }

  // aᵀ·b, contracted over all leading dimensions at once.
  ValueId folded_product(ValueId a, ValueId b) { return product(transposed(folded(a)), folded(b)); }

  ValueId scaled(ValueId value, double scale) {
    if (scale == 1) return value;
    const TensorType type = build_.type(value);
    return build_.emit("aten.mul.Tensor", {{"self", value}}, {{"other", scale}}, type);
  }

  ValueId summed_to(ValueId value, const TensorType& type) { return sum_to(build_, value, type); }

  // Over all dimensions but the last.
  ValueId column_sums(ValueId value) {
    const TensorType type = build_.type(value);
    if (type.rank() == 1) return value;
    std::vector<std::int64_t> dims(to_size(type.rank() - 1));
    std::iota(dims.begin(), dims.end(), 0);
    return build_.emit("aten.sum.dim_IntList", {{"self", value}}, {{"dim", dims}, {"keepdim", false}},
                       TensorType{type.dtype, {type.shape.back()}});
  }

 private:
  GraphBuilder& build_;
};

std::vector<ValueId> linear_gradient(const GradientCall& call) {
  Emitter emitter(call.build);
  const ValueId gradient = call.result_gradients[0];
  std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
  if (call.wanted[0]) {
    // A vector is a row here: a product needs two dimensions.
    const bool vector = call.type(gradient).rank() == 1;
    gradients[0] = emitter.product(vector ? emitter.folded(gradient) : gradient, call.operand("weight"));
    gradients[0] = emitter.view(gradients[0], call.type(call.operand("input")).shape);
  }
  if (call.wanted[1]) gradients[1] = emitter.folded_product(gradient, call.operand("input"));
  if (gradients.size() > 2 && call.wanted[2]) gradients[2] = emitter.column_sums(gradient);
  return gradients;
}

// Of operands `at` and `at` + 1 of the call, where the result is their product.
void product_gradient(const GradientCall& call, std::size_t at, ValueId gradient, std::vector<ValueId>& gradients) {
  Emitter emitter(call.build);
  ValueId a = call.node.operands[at].value, b = call.node.operands[at + 1].value;
  const TensorType left = call.type(a), right = call.type(b);
  // A vector on the left is a row, on the right a column: the gradient gets the dimension that the product lacks.
  std::vector<std::int64_t> shape = call.type(gradient).shape;
  if (right.rank() == 1) {
    shape.push_back(1);
    b = emitter.view(b, {right.shape[0], 1});
  }
  if (left.rank() == 1) {
    shape.insert(shape.end() - 1, 1);
    a = emitter.view(a, {1, left.shape[0]});
  }
  gradient = emitter.view(gradient, shape);
  const TensorType row = call.type(a), column = call.type(b);
  if (call.wanted[at]) {
    const ValueId full = emitter.product(gradient, emitter.transposed(b));
    gradients[at] = emitter.view(emitter.summed_to(full, row), left.shape);
  }
  if (call.wanted[at + 1]) {
    // One matrix for all batches: one product over all rows, instead of one for each batch and their sum.
    const ValueId full = column.rank() == 2 && row.rank() > 2 ? emitter.folded_product(a, gradient)
                                                              : emitter.product(emitter.transposed(a), gradient);
    gradients[at + 1] = emitter.view(emitter.summed_to(full, column), right.shape);
  }
}

}  // namespace

std::vector<ValueId> matmul_gradient(const GradientCall& call) {
  if (call.node.op == "aten.linear") return linear_gradient(call);
  std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
  if (!adds_to_self(call.node)) {
    product_gradient(call, 0, call.result_gradients[0], gradients);
    return gradients;
  }
  Emitter emitter(call.build);
  const ValueId gradient = call.result_gradients[0];
  if (call.wanted[0]) {
    const ValueId scaled = emitter.scaled(gradient, call.node.number("beta", 1));
    gradients[0] = emitter.summed_to(scaled, call.type(call.operand("self")));
  }
  if (call.wanted[1] || call.wanted[2]) {
    product_gradient(call, 1, emitter.scaled(gradient, call.node.number("alpha", 1)), gradients);
  }
  return gradients;
}

}  // namespace meshwright
