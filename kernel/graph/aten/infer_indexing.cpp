// Elements by their positions.
#include <algorithm>

#include "infer.h"

namespace meshwright::aten {

namespace {

// The dimensions that "indices.N" take the place of, and what stands there then.
Result<Shape> picked(const Call& call) {
  const Shape& self = call.shape("self");
  Shape positions;
  std::vector<std::size_t> indexed;
  for (const Operand& operand : call.node().operands) {
    if (!operand.name.starts_with("indices.")) continue;
    const std::size_t at = std::stoul(operand.name.substr(sizeof("indices.") - 1));
    const TensorType& index = call.type(operand.name);
    if (index.dtype == DType::boolean)
      return bad_input("a boolean index makes a shape that depends on the data; every shape must be a fixed number");
    if (at >= self.size()) return bad_input("it indexes dimension " + std::to_string(at) + " of " + text(self));
    Result<Shape> wider = broadcast(positions, index.shape);
    if (!wider) return wider.error();
    positions = std::move(*wider);
    indexed.push_back(at);
  }
  if (indexed.empty()) return bad_input("it indexes nothing");
  const bool together = indexed.back() - indexed.front() + 1 == indexed.size();
  Shape made;
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (together && d == indexed.front()) made.insert(made.end(), positions.begin(), positions.end());
    if (std::find(indexed.begin(), indexed.end(), d) == indexed.end()) made.push_back(self[d]);
  }
  if (!together) made.insert(made.begin(), positions.begin(), positions.end());
  return made;
}

Result<Shapes> index(const Call& call) {
  Result<Shape> made = picked(call);
  if (!made) return made.error();
  return Shapes{std::move(*made)};
}

// Under a mask it changes as many places as the data say.
bool has_mask(const Call& call) {
  return std::ranges::any_of(call.node().operands, [&](const Operand& operand) {
    return operand.name.starts_with("indices.") && call.type(operand.name).dtype == DType::boolean;
  });
}

Result<Shapes> index_put(const Call& call) {
  if (has_mask(call)) return Shapes{call.shape("self")};
  const Result<Shape> place = picked(call);
  if (!place) return place.error();
  const Result<Shape> filled = broadcast(*place, call.shape("values"));
  if (!filled || *filled != *place)
    return bad_input("its values of " + text(call.shape("values")) + " do not fit into " + text(*place));
  return Shapes{call.shape("self")};
}

// No longer than `self` along the other dimensions.
Status check_positions(const Call& call, std::size_t dim, const Shape& self) {
  const Shape& positions = call.shape("index");
  if (positions.size() != self.size())
    return bad_input("its index of " + text(positions) + " has another rank than " + text(self));
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (d != dim && positions[d] > self[d])
      return bad_input("its index of " + text(positions) + " is larger than " + text(self));
  }
  return Done{};
}

Result<Shapes> gather(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (Status status = check_positions(call, *dim, self); !status) return status.error();
  return Shapes{call.shape("index")};
}

Result<Shapes> scatter(const Call& call) {
  const Shape& self = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), self.size());
  if (!dim) return dim.error();
  if (Status status = check_positions(call, *dim, self); !status) return status.error();
  if (call.has("src")) {
    const Shape &source = call.shape("src"), &positions = call.shape("index");
    bool fits = source.size() == positions.size();
    for (std::size_t d = 0; fits && d < source.size(); ++d) fits = positions[d] <= source[d];
    if (!fits) return bad_input("its index of " + text(positions) + " is larger than its src of " + text(source));
  }
  return Shapes{self};
}

// A list of positions along one dimension.
Result<std::int64_t> listed(const Call& call) {
  const Shape& positions = call.shape("index");
  if (positions.size() > 1) return bad_input("its index must have one dimension");
  return elements(positions);
}

Result<Shapes> index_select(const Call& call) {
  Shape made = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), made.size());
  if (!dim) return dim.error();
  const Result<std::int64_t> count = listed(call);
  if (!count) return count.error();
  if (!made.empty()) made[*dim] = *count;
  return Shapes{made};
}

Result<Shapes> index_add(const Call& call) {
  Shape place = call.shape("self");
  const Result<std::size_t> dim = dimension(call.integer("dim", 0), place.size());
  if (!dim) return dim.error();
  const Result<std::int64_t> count = listed(call);
  if (!count) return count.error();
  if (!place.empty()) place[*dim] = *count;
  if (call.shape("source") != place)
    return bad_input("its source of " + text(call.shape("source")) + " does not fit into " + text(place));
  return Shapes{call.shape("self")};
}

Result<Shapes> masked_scatter(const Call& call) {
  const Result<Shape> both = broadcast(call.shape("self"), call.shape("mask"));
  if (!both) return both.error();
  return Shapes{*both};
}

Result<Shapes> one_hot(const Call& call) {
  Shape made = call.shape("self");
  const std::int64_t classes = call.integer("num_classes", -1);
  if (classes < 1) return bad_input("its num_classes must be a number: how many there are would depend on the data");
  made.push_back(classes);
  return Shapes{made};
}

Result<Shapes> embedding(const Call& call) {
  Shape made = call.shape("indices");
  const Shape& table = call.shape("weight");
  if (table.size() != 2) return bad_input("its table must have two dimensions");
  made.push_back(table[1]);
  return Shapes{made};
}

Result<Shapes> embedding_backward(const Call& call) {
  const Shape &gradient = call.shape("grad_output"), &positions = call.shape("indices");
  const std::int64_t rows = call.integer("num_weights", 0);
  if (rows < 1 || gradient.size() != positions.size() + 1 ||
      !std::equal(positions.begin(), positions.end(), gradient.begin()))
    return bad_input("its gradient does not fit its indices");
  return Shapes{{rows, gradient.back()}};
}

// Bags of indices, and what their families keep for the gradient.
Result<Shapes> bags(const Call& call) {
  const Shape &table = call.shape("weight"), &positions = call.shape("indices"), &offsets = call.shape("offsets");
  if (table.size() != 2 || positions.size() != 1 || offsets.size() != 1)
    return bad_input("it needs a table of two dimensions, and indices and offsets of one");
  const std::int64_t count = offsets[0] - (call.truth("include_last_offset") ? 1 : 0), mode = call.integer("mode", 0);
  if (count < 1 || mode < 0 || mode > 2) return bad_input("it has no bags, or a mode that there is not");
  if (call.has("per_sample_weights") && call.shape("per_sample_weights") != positions)
    return bad_input("its per_sample_weights have another shape than its indices");
  Shapes made = {{count, table[1]}};
  for (std::size_t i = 1; i < call.results(); ++i) made.push_back(call.result(i).shape);
  for (std::size_t i = 1; i < made.size(); ++i) {  // which depend on mode and device
    if (made[i].size() > 2)
      return bad_input("its result " + std::to_string(i) + " has another rank than PyTorch gives it");
  }
  return made;
}

}  // namespace

Table indexing_table() {
  return {
      {"index.Tensor", index},
      {"index_put", index_put},
      {"gather", gather},
      {"scatter.src scatter.value scatter_add scatter_reduce.two", scatter},
      {"index_select", index_select},
      {"index_add index_copy", index_add},
      {"masked_scatter", masked_scatter},
      {"one_hot", one_hot},
      {"embedding", embedding},
      {"embedding_dense_backward", embedding_backward},
      {"_embedding_bag embedding_bag.padding_idx", bags},
  };
}

}  // namespace meshwright::aten
