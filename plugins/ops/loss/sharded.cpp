#include <algorithm>
#include <cmath>
#include <limits>

#include "loss.h"

namespace meshwright {

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// The positions' part of logits n c, with one more dimension of `rows` in front (0: none): axes that cut the positions
// keep cutting them, axes that cut the classes become `over_classes`.
ShardedType per_position(const ShardedType& logits, std::int64_t rows, Placement over_classes) {
  const std::size_t atoms = logits.atoms.atoms_of_dimension[0], shift = rows > 0 ? 1 : 0;
  ShardedType made{{logits.type.dtype, {}}, {}, logits.layout};
  if (rows > 0) {
    made.type.shape.push_back(rows);
    made.atoms.sizes.push_back(rows);
    made.atoms.atoms_of_dimension.push_back(1);
    made.atoms.paddable.push_back(false);
  }
  made.type.shape.push_back(logits.type.shape[0]);
  made.atoms.atoms_of_dimension.push_back(logits.atoms.atoms_of_dimension[0]);
  for (std::size_t atom = 0; atom < atoms; ++atom) {
    made.atoms.sizes.push_back(logits.atoms.sizes[atom]);
    made.atoms.paddable.push_back(logits.atoms.paddable[atom]);
  }
  for (std::size_t axis = 0; axis < logits.layout.mesh_rank(); ++axis) {
    if (!logits.layout[axis].is_shard()) continue;
    const std::size_t atom = logits.layout[axis].atom();
    made.layout.place(axis, atom < atoms ? Placement::shard(atom + shift) : over_classes);
  }
  return made;
}

// A scalar, partial over the axes that cut the positions.
ShardedType over_positions(const ShardedType& per_position) {
  ShardedType made{{per_position.type.dtype, {}}, {}, per_position.layout};
  for (std::size_t axis = 0; axis < made.layout.mesh_rank(); ++axis) {
    if (made.layout[axis].is_shard()) made.layout.place(axis, Placement::partial_sum());
  }
  return made;
}

std::int64_t label_of(const Tensor& target, std::int64_t position) { return static_cast<std::int64_t>(target.get(position)); }

// The classes of a rank, but for those that pad the vocabulary.
std::vector<std::int64_t> own_classes(const ShardIndex& index, std::int64_t classes) {
  std::vector<std::int64_t> own;
  for (std::int64_t c = 0; c < classes; ++c) {
    if (index.global(c) >= 0) own.push_back(c);
  }
  return own;
}

Tensor maximum(const OpCall& call, const Tensor& logits) {
  Tensor result = call.zeros(0);
  const std::int64_t classes = logits.shape()[1];
  const std::vector<std::int64_t> own = own_classes(ShardIndex(call.node, "classes", classes), classes);
  for (std::int64_t n = 0; n < result.elements(); ++n) {
    double largest = kNothing;
    for (const std::int64_t c : own) largest = std::max(largest, logits.get(n * classes + c));
    result.set(n, largest);
  }
  return result;
}

Result<Tensor> terms(const OpCall& call, const Tensor& logits, const Tensor& target, const Tensor& largest, const Tensor* weight) {
  Tensor result = call.zeros(0);
  const std::int64_t classes = logits.shape()[1], positions = logits.shape()[0];
  const ShardIndex index(call.node, "classes", classes);
  const std::vector<std::int64_t> own = own_classes(index, classes);
  for (std::int64_t n = 0; n < positions; ++n) {
    double sum = 0;
    for (const std::int64_t c : own) sum += std::exp(logits.get(n * classes + c) - largest.get(n));
    result.set(n, sum);
    const std::int64_t label = label_of(target, n);
    if (label == call.node.integer("ignore_index", -100)) continue;
    if (label < 0 || label >= index.global_size()) return bad_input("a label is outside of the classes");
    const std::optional<std::int64_t> here = index.local(label);
    if (!here) continue;  // another rank's class
    result.set(positions + n, logits.get(n * classes + *here) - largest.get(n));
    result.set(2 * positions + n, weight ? weight->get(*here) : 1);
  }
  return result;
}

Tensor count(const OpCall& call, const Tensor& terms) {
  Tensor result = call.zeros(0);
  const std::int64_t positions = terms.shape()[1];
  double sum = 0;
  for (std::int64_t n = 0; n < positions; ++n) sum += terms.get(2 * positions + n);
  result.set(0, sum);
  return result;
}

Tensor combine(const OpCall& call, const Tensor& terms, const Tensor* count) {
  Tensor result = call.zeros(0);
  const std::int64_t positions = terms.shape()[1];
  double sum = 0;
  for (std::int64_t n = 0; n < positions; ++n) {
    const double share = terms.get(2 * positions + n);
    const double loss = share == 0 ? 0 : share * (std::log(terms.get(n)) - terms.get(positions + n));
    if (reduction_of(call.node) == LossReduction::none) result.set(n, loss);
    sum += loss;
  }
  if (reduction_of(call.node) != LossReduction::none) result.set(0, count ? sum / count->get(0) : sum);
  return result;
}

Tensor combine_backward(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor &gradient = *operands[0], &logits = *operands[1], &target = *operands[2], &largest = *operands[3], &terms = *operands[4];
  const Tensor* count = operands.size() > 5 ? operands[5] : nullptr;
  Tensor result = call.zeros(0);
  const std::int64_t classes = logits.shape()[1], positions = logits.shape()[0];
  const ShardIndex index(call.node, "classes", classes);
  const std::vector<std::int64_t> own = own_classes(index, classes);
  for (std::int64_t n = 0; n < positions; ++n) {
    double scale = terms.get(2 * positions + n) * gradient.get(reduction_of(call.node) == LossReduction::none ? n : 0);
    if (scale == 0) continue;
    if (count) scale /= count->get(0);
    const std::int64_t label = index.local(label_of(target, n)).value_or(-1);  // or another rank's
    const double highest = largest.get(n), sum = terms.get(n);
    for (const std::int64_t c : own) {
      const double probability = std::exp(logits.get(n * classes + c) - highest) / sum;
      result.set(n * classes + c, scale * (probability - (c == label ? 1 : 0)));
    }
  }
  return result;
}

}  // namespace

Result<std::vector<Tensor>> sharded_step(const OpCall& call, std::span<const Tensor* const> operands) {
  const std::string& op = call.node.op;
  std::vector<Tensor> results;
  if (op == "meshwright.cross_entropy_maximum") {
    results.push_back(maximum(call, *operands[0]));
  } else if (op == "meshwright.cross_entropy_terms") {
    Result<Tensor> made = terms(call, *operands[0], *operands[1], *operands[2], operands.size() > 3 ? operands[3] : nullptr);
    if (!made) return made.error();
    results.push_back(std::move(*made));
  } else if (op == "meshwright.cross_entropy_count") {
    results.push_back(count(call, *operands[0]));
  } else if (op == "meshwright.cross_entropy_combine") {
    results.push_back(combine(call, *operands[0], operands.size() > 1 ? operands[1] : nullptr));
  } else {
    results.push_back(combine_backward(call, operands));
  }
  return results;
}

bool emit_sharded_steps(const LocalCall& call) {
  const Node& node = call.call.node;
  const ShardedType& logits = *call.type("self");
  const ShardedType position = per_position(logits, 0, Placement::partial_max());
  const bool mean = reduction_of(node) == LossReduction::mean;
  const bool cuts_positions = local_type(position, call.mesh) != position.type;
  if (!position.layout.has_partial() && !(mean && cuts_positions)) return false;

  Attributes attributes = node.attributes, classes = node.attributes;
  RankAttributes starts;
  ShardIndex::describe(logits, 1, 2, call.mesh, "classes", classes, starts);
  LocalBuilder& build = call.build;
  // An emitted program keeps the sums of its forward for the backward, and sends the count with the loss.
  const auto reduce = [&](ProgramValueId value) { return is_backward(node) ? build.reduce_along(value) : build.reduce(value); };
  const ProgramValueId self = call.operand("self"), target = call.operand("target");

  const ProgramValueId local_maximum = build.make(position);
  build.emit("meshwright.cross_entropy_maximum", {{"self", self}}, classes, starts, {local_maximum});
  const ProgramValueId largest = reduce(local_maximum);
  const ProgramValueId local_terms = build.make(per_position(logits, 3, Placement::partial_sum()));
  build.emit("meshwright.cross_entropy_terms",
             {{"self", self}, {"target", target}, {"maximum", largest}, {"weight", call.operand("weight")}}, classes, starts,
             {local_terms});
  const ProgramValueId terms = reduce(local_terms);
  ProgramValueId count = kNoId;
  if (mean) {
    const ProgramValueId local_count = build.make(over_positions(build.type(terms)));
    build.emit("meshwright.cross_entropy_count", {{"terms", terms}}, attributes, {}, {local_count});
    count = build.reduce_along(local_count);
  }
  if (is_backward(node)) {
    build.emit("meshwright.cross_entropy_combine_backward",
               {{"grad_output", call.operand("grad_output")}, {"self", self}, {"target", target}, {"maximum", largest},
                {"terms", terms}, {"count", count}},
               classes, starts, node.results);
  } else {
    build.emit("meshwright.cross_entropy_combine", {{"terms", terms}, {"count", count}}, attributes, {}, node.results);
  }
  return true;
}

}  // namespace meshwright
