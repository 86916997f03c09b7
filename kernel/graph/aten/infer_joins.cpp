// Pieces of a dimension, joined and cut.
#include <algorithm>

#include "infer.h"

namespace meshwright::aten {

namespace {

Result<Shapes> joined(Shapes shapes, std::int64_t at) {
  const Result<std::size_t> dim = dimension(at, shapes[0].size());
  if (!dim) return dim.error();
  if (shapes[0].empty()) return bad_input("tensors without dimensions can't be joined");
  Shape made = shapes[0];
  made[*dim] = 0;
  for (Shape& shape : shapes) {
    if (shape.size() != made.size())
      return bad_input("tensors of " + text(shapes[0]) + " and " + text(shape) + " can't be joined");
    const std::int64_t extent = shape[*dim];
    shape[*dim] = shapes[0][*dim];
    if (shape != shapes[0])
      return bad_input("tensors of " + text(shapes[0]) + " and " + text(shape) + " can't be joined");
    if (__builtin_add_overflow(made[*dim], extent, &made[*dim])) return bad_input("what is joined is impossibly large");
  }
  return Shapes{made};
}

Shapes all(const Call& call) {
  Shapes shapes;
  for (std::size_t i = 0; i < call.operands(); ++i) shapes.push_back(call.operand(i).shape);
  return shapes;
}

Result<Shapes> cat(const Call& call) { return joined(all(call), call.integer("dim", 0)); }

Result<Shapes> stack(const Call& call) {
  Shapes shapes = all(call);
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), shapes[0].size() + 1);
  if (!dim) return dim.error();
  for (Shape& shape : shapes) {
    if (shape.size() < *dim) return bad_input("tensors of different ranks can't be stacked");
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*dim), 1);
  }
  return joined(std::move(shapes), static_cast<std::int64_t>(*dim));
}

Result<Shapes> named_stack(const Call& call) {
  Shapes shapes = all(call);
  std::int64_t dim = call.op() == "aten.vstack" ? 0 : 1;
  for (Shape& shape : shapes) {
    if (call.op() == "aten.vstack" && shape.size() < 2) shape.insert(shape.begin(), shape.empty() ? 2 : 1, 1);
    if (call.op() == "aten.column_stack" && shape.size() < 2) shape.resize(2, 1);
    if (call.op() == "aten.hstack" && shape.empty()) shape.push_back(1);
  }
  if (call.op() == "aten.hstack" && shapes[0].size() == 1) dim = 0;
  return joined(std::move(shapes), dim);
}

// The pieces of `dim` with these extents.
Result<Shapes> pieces(const Call& call, const std::vector<std::int64_t>& extents, std::size_t dim) {
  const Shape& self = call.shape("self");
  std::int64_t sum = 0;
  Shapes made;
  for (const std::int64_t extent : extents) {
    if (extent < 1 || extent > self[dim])
      return bad_input("a piece of " + std::to_string(extent) + " of " + std::to_string(self[dim]));
    sum += extent;
    made.push_back(self);
    made.back()[dim] = extent;
  }
  if (sum != self[dim])
    return bad_input("its pieces make " + std::to_string(sum) + ", and there are " + std::to_string(self[dim]));
  return made;
}

Result<Shapes> split(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (self.empty()) return bad_input("a tensor without dimensions can't be split");
  if (call.op() == "aten.split_with_sizes") return pieces(call, call.list("split_sizes"), *dim);
  std::int64_t size = call.integer("split_size", 0);
  if (call.op() == "aten.chunk") {
    const std::int64_t chunks = call.integer("chunks", 0);
    if (chunks < 1) return bad_input("it must make 1 piece at least");
    size = (self[*dim] + chunks - 1) / chunks;
  }
  if (size < 1) return bad_input("its pieces must be of 1 at least");
  if (self[*dim] / size > 100'000) return bad_input("it makes more than 100000 pieces");
  std::vector<std::int64_t> extents;
  for (std::int64_t left = self[*dim]; left > 0; left -= size) extents.push_back(std::min(left, size));
  return pieces(call, extents, *dim);
}

Result<Shapes> unbind(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), made.size());
  if (!dim) return dim.error();
  if (made.empty() || made[*dim] > 100'000) return bad_input("it can't be taken apart");
  const std::int64_t count = made[*dim];
  made.erase(made.begin() + static_cast<std::ptrdiff_t>(*dim));
  return Shapes(static_cast<std::size_t>(count), made);
}

// From `start` to `end` in steps, as Python counts.
Result<Shape> sliced(const Call& call, Shape self) {
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (self.empty()) return bad_input("a tensor without dimensions has no slices");
  const std::int64_t size = self[*dim], step = call.integer("step", 1);
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = place(call.integer("start", 0)), end = place(call.integer("end", INT64_MAX));
  if (step < 1) return bad_input("its step must be 1 at least");
  if (end <= start) return bad_input("its slice is empty");
  self[*dim] = (end - start - 1) / step + 1;
  return self;
}

Result<Shape> selected(const Call& call, Shape self) {
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  const std::int64_t index = call.integer("index", 0);
  if (self.empty() || index < -self[*dim] || index >= self[*dim])
    return bad_input("index " + std::to_string(index) + " is outside of " + text(self));
  self.erase(self.begin() + static_cast<std::ptrdiff_t>(*dim));
  return self;
}

Result<Shapes> slice(const Call& call) { return one(sliced(call, call.shape("self"))); }
Result<Shapes> select(const Call& call) { return one(selected(call, call.shape("self"))); }

// Back into a tensor of the sizes that the call names.
Result<Shapes> back(const Call& call) {
  const Shape sizes = call.list("input_sizes");
  for (const std::int64_t size : sizes) {
    if (size < 1) return bad_input("its input_sizes must be 1 at least");
  }
  const Result<Shape> piece = call.op() == "aten.slice_backward" ? sliced(call, sizes) : selected(call, sizes);
  if (!piece) return piece.error();
  if (*piece != call.shape("grad_output"))
    return bad_input("its gradient of " + text(call.shape("grad_output")) + " is none of a piece of " + text(*piece));
  return Shapes{sizes};
}

Result<Shapes> overwritten(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<Shape> piece = call.op() == "aten.slice_scatter" ? sliced(call, self) : selected(call, self);
  if (!piece) return piece.error();
  if (*piece != call.shape("src"))
    return bad_input("what is written is of " + text(call.shape("src")) + ", and its place of " + text(*piece));
  return Shapes{self};
}

Result<Shapes> glu(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", -1), made.size());
  if (!dim) return dim.error();
  if (made.empty() || made[*dim] % 2 != 0) return bad_input("its dimension can't be halved");
  made[*dim] /= 2;
  return Shapes{made};
}

Result<Shapes> meshgrid(const Call& call) {
  Shape made;
  for (std::size_t i = 0; i < call.operands(); ++i) {
    if (call.operand(i).rank() > 1) return bad_input("a grid is made of tensors of one dimension");
    made.push_back(elements(call.operand(i).shape));
  }
  if (call.node().text("indexing", "ij") == "xy" && made.size() > 1) std::swap(made[0], made[1]);
  return Shapes(call.operands(), made);
}

}  // namespace

Table joining_table() {
  return {
      {"cat concat", cat},
      {"stack", stack},
      {"hstack vstack column_stack", named_stack},
      {"split.Tensor split_with_sizes chunk", split},
      {"unbind.int", unbind},
      {"slice.Tensor", slice},
      {"select.int", select},
      {"slice_backward select_backward", back},
      {"slice_scatter select_scatter", overwritten},
      {"glu", glu},
      {"meshgrid meshgrid.indexing", meshgrid},
  };
}

}  // namespace meshwright::aten
