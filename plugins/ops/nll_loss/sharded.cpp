#include "nll_loss.h"

namespace meshwright {

namespace {

// The classes that are here, and the labels' places among them.
class Labels {
 public:
  Labels(const Node& node, const Tensor& target, const Tensor* weight, std::int64_t classes)
      : target_(target), weight_(weight), index_(node, "classes", classes), ignored_(node.integer("ignore_index", -100)) {}

  [[nodiscard]] std::int64_t count() const { return target_.elements(); }
  [[nodiscard]] bool counts(std::int64_t position) const { return label(position) != ignored_; }
  [[nodiscard]] bool is_class(std::int64_t position) const { return label(position) >= 0 && label(position) < index_.global_size(); }
  [[nodiscard]] std::optional<std::int64_t> here(std::int64_t position) const { return index_.local(label(position)); }
  [[nodiscard]] double share(std::int64_t here) const { return weight_ ? weight_->get(here) : 1; }

 private:
  [[nodiscard]] std::int64_t label(std::int64_t position) const { return static_cast<std::int64_t>(target_.get(position)); }

  const Tensor& target_;
  const Tensor* weight_;
  const ShardIndex index_;
  const std::int64_t ignored_;
};

}  // namespace

Result<std::vector<Tensor>> nll_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Node& node = call.node;
  const auto weight_index = node.operand_index("weight");
  const Tensor* weight = weight_index ? operands[*weight_index] : nullptr;
  const Tensor& target = *operands[*node.operand_index("target")];
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.zeros(0));
  if (node.op == kCount && !weight) {
    double count = 0;
    for (std::int64_t i = 0; i < target.elements(); ++i) count += target.get(i) != node.number("ignore_index", -100) ? 1 : 0;
    result.set(0, count);
    return results;
  }
  const bool backward = node.op == kBackward, counts = node.op == kCount;
  const TensorType& table = backward ? call.results[0] : call.operands[0];
  const std::int64_t classes = counts ? weight->elements() : table.shape[class_dimension(table.rank())];
  const std::int64_t positions = target.elements();
  const std::int64_t examples = target.shape().empty() ? 1 : target.shape()[0], space = examples == 0 ? 1 : positions / examples;
  const LossReduction reduction = reduction_of(node);
  const Labels labels(node, target, weight, classes);
  double sum = 0, shares = 0;
  for (std::int64_t i = 0; i < positions; ++i) {
    if (!labels.counts(i)) continue;
    if (!labels.is_class(i)) return bad_input("a label is outside of the classes");
    const std::optional<std::int64_t> here = labels.here(i);
    if (!here) continue;  // another rank's class
    const double share = labels.share(*here);
    const std::int64_t at = (i / space * classes + *here) * space + i % space;
    shares += share;
    if (counts) continue;
    if (backward) {
      result.set(at, -share * operands[0]->get(reduction == LossReduction::none ? i : 0));
      continue;
    }
    const double loss = -share * operands[0]->get(at);
    if (reduction == LossReduction::none) result.set(i, loss);
    sum += loss;
  }
  if (backward) return results;
  if (counts) result.set(0, shares);
  else if (reduction != LossReduction::none) result.set(0, reduction == LossReduction::mean ? sum / shares : sum);
  return results;
}

void nll_localize(const LocalCall& call) {
  const Node& node = call.call.node;
  const bool counts = node.op == kCount;
  const auto describe = [&](const ShardedType& type, std::size_t dimension, Attributes& attributes, RankAttributes& starts) {
    ShardIndex::describe(type, dimension, dimension + 1, call.mesh, "classes", attributes, starts);
  };
  Attributes attributes = node.attributes;
  RankAttributes starts;
  const ShardedType& table = node.op == kBackward ? call.results[0] : call.operands[0];
  if (!counts) describe(table, class_dimension(table.type.rank()), attributes, starts);
  else if (call.type("weight")) describe(*call.type("weight"), 0, attributes, starts);
  if (counts || node.op == kBackward || reduction_of(node) != LossReduction::mean || !call.results[0].layout.has_partial()) {
    call.emit(std::move(attributes), std::move(starts));
    return;
  }
  attributes["reduction"] = static_cast<std::int64_t>(LossReduction::sum);
  const ProgramValueId sum = call.build.make(call.results[0]);
  call.build.emit(node.op, node.operands, attributes, starts, {sum});
  // Partial where labels or weights are cut; elsewhere the ranks count the same.
  ShardedType type = call.results[0];
  const auto is_cut = [&](const char* name, std::size_t axis) { return call.type(name) && call.type(name)->layout[axis].is_shard(); };
  for (std::size_t axis = 0; axis < type.layout.mesh_rank(); ++axis) {
    if (!is_cut("target", axis) && !is_cut("weight", axis)) type.layout.place(axis, Placement::replicate());
  }
  const ProgramValueId count = call.build.make(std::move(type));
  attributes = {{"ignore_index", node.integer("ignore_index", -100)}};
  starts = {};
  if (call.type("weight")) describe(*call.type("weight"), 0, attributes, starts);
  call.build.emit(kCount, {{"target", call.operand("target")}, {"weight", call.operand("weight")}}, attributes, starts, {count});
  call.build.emit("aten.div.Tensor", {{"self", sum}, {"other", call.build.reduce_along(count)}}, {}, {}, node.results);
}

}  // namespace meshwright
