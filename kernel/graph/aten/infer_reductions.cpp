// What becomes fewer along dimensions.
#include <algorithm>

#include "infer.h"

namespace meshwright::aten {

namespace {

// Along the dimensions that "dim" names: one, several, or all where it names none.
Result<Shapes> over_dim(const Call& call) {
  const bool of_none = call.op() == "aten.any.dims" || call.op() == "aten.all.dims";  // with an empty list these reduce nothing
  if (of_none && call.says("dim") && call.list("dim").empty()) return Shapes{call.shape("self")};
  const Shape& self = call.operand(0).shape;
  const Result<std::vector<std::size_t>> dims = dimensions(call.list("dim"), self.size());
  if (!dims) return dims.error();
  Shape made;
  for (std::size_t d = 0; d < self.size(); ++d) {
    const bool reduced = std::find(dims->begin(), dims->end(), d) != dims->end();
    if (!reduced)
      made.push_back(self[d]);
    else if (call.truth("keepdim"))
      made.push_back(1);
  }
  return Shapes(call.results(), made);
}

// Sums to one number.
Result<Shapes> whole(const Call& call) { return Shapes(call.results(), Shape{}); }

Result<Shapes> topk(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", -1), made.size());
  if (!dim) return dim.error();
  const std::int64_t k = call.integer("k", 0);
  if (k < 1 || k > (made.empty() ? 1 : made[*dim]))
    return bad_input("k is " + std::to_string(k) + ", of " + std::to_string(made.empty() ? 1 : made[*dim]));
  if (!made.empty()) made[*dim] = k;
  return Shapes(call.results(), made);
}

Result<Shapes> diff(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", -1), made.size());
  if (!dim) return dim.error();
  if (made.empty()) return bad_input("its tensor must have a dimension");
  for (const char* more : {"prepend", "append"}) {
    if (!call.has(more)) continue;
    Shape other = call.shape(more);
    if (other.size() != made.size()) return bad_input("'" + std::string(more) + "' has another rank");
    const std::int64_t extent = other[*dim];
    other[*dim] = made[*dim];
    if (other != made) return bad_input("'" + std::string(more) + "' has another shape");
    made[*dim] += extent;
  }
  const std::int64_t n = call.integer("n", 1);
  if (n < 0 || n >= made[*dim]) return bad_input("n is " + std::to_string(n) + ", of " + std::to_string(made[*dim]));
  made[*dim] -= n;
  return Shapes{made};
}

}  // namespace

Table reduction_table() {
  return {
      {"sum.dim_IntList mean.dim amax amin argmax argmin max.dim min.dim all.dim all.dims any.dim any.dims logsumexp "
       "prod.dim_int "
       "std.correction std.dim std_mean.correction std_mean.dim var.correction var.dim var_mean.correction "
       "var_mean.dim "
       "linalg_norm linalg_vector_norm",
       over_dim},
      {"sum mean all any max min prod std std_mean var var_mean", whole},
      {"topk", topk},
      {"diff", diff},
  };
}

}  // namespace meshwright::aten
