// Products of matrices and of vectors.
#include "infer.h"

namespace meshwright::aten {

namespace {

Error mismatch(const Shape& a, const Shape& b) {
  return bad_input("there is no product of " + text(a) + " and " + text(b));
}

Status into(const Call& call, std::string_view addend, const Shape& product) {
  const Result<Shape> both = broadcast(call.shape(addend), product);
  if (both && *both == product) return Done{};
  return bad_input("'" + std::string(addend) + "' of " + text(call.shape(addend)) + " does not fit into " +
                   text(product));
}

Result<Shapes> linear(const Call& call) {
  Shape made = call.shape("input");
  const Shape& weight = call.shape("weight");
  if (made.empty() || weight.size() != 2 || made.back() != weight[1]) return mismatch(made, weight);
  made.back() = weight[0];
  if (call.has("bias") && call.shape("bias") != Shape{weight[0]})
    return bad_input("its bias must have " + std::to_string(weight[0]) + " elements");
  return Shapes{made};
}

Result<Shape> mm(const Shape& a, const Shape& b) {
  if (a.size() != 2 || b.size() != 2 || a[1] != b[0]) return mismatch(a, b);
  return Shape{a[0], b[1]};
}

Result<Shape> bmm(const Shape& a, const Shape& b) {
  if (a.size() != 3 || b.size() != 3 || a[0] != b[0] || a[2] != b[1]) return mismatch(a, b);
  return Shape{a[0], a[1], b[2]};
}

Result<Shapes> plain(const Call& call) {
  Result<Shape> made =
      call.op() == "aten.mm" ? mm(call.shape("self"), call.shape("mat2")) : bmm(call.shape("self"), call.shape("mat2"));
  if (!made) return made.error();
  return Shapes{*made};
}

Result<Shapes> added(const Call& call) {
  Result<Shape> made = call.op() == "aten.addmm" ? mm(call.shape("mat1"), call.shape("mat2"))
                                                 : bmm(call.shape("batch1"), call.shape("batch2"));
  if (!made) return made.error();
  if (Status status = into(call, "self", *made); !status) return status.error();
  return Shapes{*made};
}

Result<Shapes> matmul(const Call& call) {
  Shape a = call.shape("self"), b = call.shape("other");
  if (a.empty() || b.empty()) return mismatch(a, b);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return mismatch(call.shape("self"), call.shape("other"));
  const Result<Shape> batch = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!batch) return batch.error();
  Shape made = *batch;
  if (!row) made.push_back(a[a.size() - 2]);
  if (!column) made.push_back(b.back());
  return Shapes{made};
}

Result<Shapes> vectors(const Call& call) {
  const Shape &a = call.operand(0).shape, &b = call.operand(1).shape;
  const bool is_mv = call.op() == "aten.mv";
  if (a.size() != (is_mv ? 2U : 1U) || b.size() != 1) return mismatch(a, b);
  if (call.op() == "aten.outer") return Shapes{{a[0], b[0]}};
  if (a.back() != b[0]) return mismatch(a, b);
  return Shapes{is_mv ? Shape{a[0]} : Shape{}};
}

// Rows of x1 against rows of x2.
Result<Shapes> cdist(const Call& call) {
  const Shape &a = call.shape("x1"), &b = call.shape("x2");
  if (a.size() < 2 || b.size() < 2 || a.back() != b.back())
    return bad_input("there are no distances between rows of " + text(a) + " and " + text(b));
  const Result<Shape> batch = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!batch) return batch.error();
  Shape made = *batch;
  made.push_back(a[a.size() - 2]);
  made.push_back(b[b.size() - 2]);
  return Shapes{made};
}

Result<Shapes> pdist(const Call& call) {
  const Shape& self = call.shape("self");
  if (self.size() != 2) return bad_input("its tensor must have two dimensions");
  return Shapes{{self[0] * (self[0] - 1) / 2}};
}

Result<Shapes> cosine(const Call& call) {
  const Result<Shape> both = broadcast(call.shape("x1"), call.shape("x2"));
  if (!both) return both.error();
  const Result<std::size_t> dim = dimension(call.integer("dim", 1), both->size());
  if (!dim) return dim.error();
  Shape made = *both;
  if (!made.empty()) made.erase(made.begin() + static_cast<std::ptrdiff_t>(*dim));
  return Shapes{made};
}

}  // namespace

Table product_table() {
  return {
      {"linear", linear},        {"mm bmm", plain},
      {"addmm baddbmm", added},  {"matmul", matmul},
      {"dot mv outer", vectors}, {"cdist _cdist_forward", cdist},
      {"_pdist_forward", pdist}, {"cosine_similarity", cosine},
  };
}

}  // namespace meshwright::aten
