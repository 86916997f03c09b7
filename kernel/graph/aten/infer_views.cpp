// Ops that regroup, reorder or repeat dimensions.
#include <algorithm>

#include "infer.h"

namespace meshwright::aten {

namespace {

Error no_view(const Shape& from, const Shape& to) {
  return bad_input("a tensor of " + text(from) + " can't be seen as one of " + text(to));
}

// `sizes` with its -1, if it has one, so that it holds as many elements as `from`.
Result<Shape> resolved(const Shape& from, Shape sizes) {
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < -1; }) ||
      std::count(sizes.begin(), sizes.end(), -1) > 1)
    return no_view(from, sizes);
  const std::int64_t count = elements(from);
  if (open != sizes.end()) {
    *open = 1;
    const std::int64_t others = elements(sizes);
    if (others == 0 || count % others != 0) return no_view(from, sizes);
    *open = count / others;
  }
  if (elements(sizes) != count) return no_view(from, sizes);
  return sizes;
}

Result<Shapes> view(const Call& call) {
  return one(resolved(call.shape("self"), call.list(call.says("size") ? "size" : "shape")));
}

Result<Shapes> unsqueeze(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), made.size() + 1);
  if (!dim) return dim.error();
  made.insert(made.begin() + static_cast<std::ptrdiff_t>(*dim), 1);
  return Shapes{made};
}

Result<Shapes> squeeze(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::vector<std::size_t>> dims = dimensions(call.list("dim"), self.size());
  if (!dims) return dims.error();
  Shape made;
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (self[d] != 1 || std::find(dims->begin(), dims->end(), d) == dims->end()) made.push_back(self[d]);
  }
  return Shapes{made};
}

Result<Shapes> transpose(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> first = dimension(call.integer("dim0", 0), made.size()),
                            second = dimension(call.integer("dim1", 1), std::max<std::size_t>(made.size(), 2));
  if (!first) return first.error();
  if (!second) return second.error();
  if (made.empty()) return Shapes{made};
  if (*second >= made.size()) return bad_input("dimension 1 is none of its tensor's");
  std::swap(made[*first], made[*second]);
  return Shapes{made};
}

Result<Shapes> t(const Call& call) {
  Shape made = call.shape("self");
  if (made.size() > 2) return bad_input("its tensor has more than two dimensions");
  std::reverse(made.begin(), made.end());
  return Shapes{made};
}

Result<Shapes> permute(const Call& call) {
  const Shape& self = call.shape("self");
  const Shape dims = call.list("dims");
  if (dims.size() != self.size()) return bad_input("dims must name every dimension");
  const Result<std::vector<std::size_t>> each = dimensions(dims, self.size());
  if (!each) return each.error();
  Shape made;
  for (const std::int64_t dim : dims) made.push_back(self[*dimension(dim, self.size())]);
  return Shapes{made};
}

Result<Shapes> expand(const Call& call) {
  const Shape& self = call.shape("self");
  Shape made = call.list("size");
  if (made.size() < self.size()) return no_view(self, made);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const bool added = i + self.size() < made.size();
    const std::int64_t from = added ? 1 : self[i + self.size() - made.size()];
    if (made[i] == -1 && !added) made[i] = from;
    if (made[i] < 0 || (from != 1 && made[i] != from)) return no_view(self, made);
  }
  return Shapes{made};
}

Result<Shapes> flatten(const Call& call) {
  const Shape& self = call.shape("self");
  if (self.empty()) return Shapes{{1}};
  const Result<std::size_t> first = dimension(call.integer("start_dim", 0), self.size()),
                            last = dimension(call.integer("end_dim", -1), self.size());
  if (!first) return first.error();
  if (!last) return last.error();
  if (*first > *last) return bad_input("start_dim stands behind end_dim");
  Shape made(self.begin(), self.begin() + static_cast<std::ptrdiff_t>(*first));
  made.push_back(elements(Shape(self.begin() + static_cast<std::ptrdiff_t>(*first),
                                self.begin() + static_cast<std::ptrdiff_t>(*last) + 1)));
  made.insert(made.end(), self.begin() + static_cast<std::ptrdiff_t>(*last) + 1, self.end());
  return Shapes{made};
}

Result<Shapes> unflatten(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (self.empty()) return bad_input("its tensor must have a dimension");
  const Result<Shape> pieces = resolved({self[*dim]}, call.list("sizes"));
  if (!pieces) return pieces.error();
  Shape made(self.begin(), self.begin() + static_cast<std::ptrdiff_t>(*dim));
  made.insert(made.end(), pieces->begin(), pieces->end());
  made.insert(made.end(), self.begin() + static_cast<std::ptrdiff_t>(*dim) + 1, self.end());
  return Shapes{made};
}

Result<Shapes> repeat(const Call& call) {
  const Shape& self = call.shape("self");
  Shape times = call.list(call.op() == "aten.tile" ? "dims" : "repeats");
  if (times.size() < self.size()) {
    if (call.op() != "aten.tile") return bad_input("repeats must have a number for every dimension");
    times.insert(times.begin(), self.size() - times.size(), 1);
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::int64_t size = i + self.size() < times.size() ? 1 : self[i + self.size() - times.size()];
    if (times[i] < 0 || __builtin_mul_overflow(times[i], size, &times[i]))
      return bad_input("it can't be repeated so many times");
  }
  return Shapes{times};
}

Result<Shapes> repeat_interleave(const Call& call) {
  Shape self = call.shape("self");
  const std::int64_t repeats = call.integer("repeats", 1);
  if (!call.says("dim")) self = {elements(self)};
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (self.empty() || repeats < 0 || __builtin_mul_overflow(repeats, self[*dim], &self[*dim]))
    return bad_input("it can't be repeated so many times");
  return Shapes{self};
}

Result<Shapes> diagonal(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::vector<std::size_t>> dims =
      dimensions({call.integer("dim1", 0), call.integer("dim2", 1)}, self.size());
  if (!dims) return dims.error();
  if (self.size() < 2) return bad_input("its tensor must have two dimensions at least");
  const std::int64_t offset = call.integer("offset", 0);
  const std::int64_t rows = self[*dimension(call.integer("dim1", 0), self.size())],
                     columns = self[*dimension(call.integer("dim2", 1), self.size())];
  Shape made;
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (d != (*dims)[0] && d != (*dims)[1]) made.push_back(self[d]);
  }
  made.push_back(
      std::max<std::int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns)));
  return Shapes{made};
}

Result<Shapes> unfold(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dimension", 0), made.size());
  if (!dim) return dim.error();
  const std::int64_t size = call.integer("size", 0), step = call.integer("step", 0);
  if (made.empty() || size < 1 || step < 1 || size > made[*dim])
    return bad_input("windows of " + std::to_string(size) + " in steps of " + std::to_string(step) + " do not fit");
  made[*dim] = (made[*dim] - size) / step + 1;
  made.push_back(size);
  return Shapes{made};
}

}  // namespace

Table view_table() {
  return {
      {"view reshape _unsafe_view", view},
      {"unsqueeze", unsqueeze},
      {"squeeze squeeze.dim squeeze.dims", squeeze},
      {"transpose.int", transpose},
      {"t", t},
      {"permute", permute},
      {"expand", expand},
      {"flatten.using_ints", flatten},
      {"unflatten.int", unflatten},
      {"repeat tile", repeat},
      {"repeat_interleave.self_int", repeat_interleave},
      {"diagonal", diagonal},
      {"unfold", unfold},
  };
}

}  // namespace meshwright::aten
