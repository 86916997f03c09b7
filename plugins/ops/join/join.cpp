// Ops that cut a dimension in pieces or join pieces. Equal pieces are a product of factors: a fused projection of
// 2304 that is split by 768 is (!p d) with p = 3, so that it still shards over d, or over the heads inside.
#include <algorithm>

#include "meshwright/op.h"
#include "join.h"
#include "meshwright/local_call.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.split.Tensor", "aten.split_with_sizes", "aten.chunk", "aten.slice.Tensor",
                                "aten.select.int", "aten.cat", "aten.slice_backward",
                                "aten.select_backward", "aten.stack", "aten.unbind.int",
                                "aten.concat", "aten.hstack", "aten.vstack", "aten.column_stack", nullptr};

// "d0 d1 X d3": every dimension its own factor, but `at`, which reads `text`; nothing where `text` is "".
std::string dimensions_text(std::size_t rank, std::size_t at, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::string here = i == at ? text : "~d" + std::to_string(i);
    if (!here.empty()) all += (all.empty() ? "" : " ") + here;
  }
  return all;
}

// A piece or the joint dimension, where pieces differ: whole, under a name of its own.
std::string whole_text(std::int64_t size, const std::string& name) { return size == 1 ? "1" : "!" + name; }

// concat is cat, and so are hstack, vstack and column_stack along the dimension that they stand for; of vectors, vstack and
// column_stack are stacks.
Node canonical(const Node& node, std::int64_t rank) {
  Node made = node;
  const bool horizontal = node.op == "aten.hstack", vertical = node.op == "aten.vstack", columns = node.op == "aten.column_stack";
  if (node.op == "aten.concat") made.op = "aten.cat";
  if (!horizontal && !vertical && !columns) return made;
  made.op = rank > 1 || horizontal ? "aten.cat" : "aten.stack";
  made.attributes["dim"] = std::int64_t{vertical || (horizontal && rank == 1) ? 0 : 1};
  return made;
}

class Join final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& given) const override {
    const Node node = canonical(given.node, given.operands[0].rank());
    const OpCall call{node, given.operands, given.results};
    Result<Rule> rule = parse(call);
    if (!rule) return rule;
    std::vector<std::uint32_t> all(call.operands.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    if (is_floating(call.results[0].dtype)) rule->linear = {all};
    return rule;
  }

  static Result<Rule> parse(const OpCall& call) {
    const std::string& op = call.node.op;
    if (op == "aten.cat") return pieces_rule(call, call.operands, call.results[0], true);
    if (op == "aten.stack" || op == "aten.unbind.int") return stack_rule(call, op == "aten.stack");
    if (op == "aten.select.int") {
      const std::size_t at = dimension(call, call.operands[0]);
      const std::size_t rank = call.operands[0].shape.size();
      return parse_rule(dimensions_text(rank, at, whole_text(call.operands[0].shape[at], "w")) + " -> " +
                            dimensions_text(rank, at, ""), call.operands, call.results);
    }
    if (op == "aten.select_backward") {
      const std::size_t at = dimension(call, call.results[0]);
      const std::size_t rank = call.results[0].shape.size();
      return parse_rule(dimensions_text(rank, at, "") + " -> " +
                            dimensions_text(rank, at, whole_text(call.results[0].shape[at], "w")), call.operands, call.results);
    }
    if (op == "aten.slice.Tensor") return slice_rule(call, call.operands[0], call.results[0], false);
    if (op == "aten.slice_backward") return slice_rule(call, call.results[0], call.operands[0], true);
    return pieces_rule(call, call.results, call.operands[0], false);
  }

  // Pieces on one side; on the other they are positions of a new dimension.
  static Result<Rule> stack_rule(const OpCall& call, bool joins) {
    const std::vector<TensorType>& pieces = joins ? call.operands : call.results;
    const TensorType& joint = joins ? call.results[0] : call.operands[0];
    const std::size_t at = dimension(call, joint);
    const std::string one = dimensions_text(joint.shape.size(), at, whole_text(joint.shape[at], "w"));
    std::string list;
    for (std::size_t i = 0; i < pieces.size(); ++i) list += (i > 0 ? ", " : "") + dimensions_text(joint.shape.size(), at, "");
    return parse_rule(joins ? list + " -> " + one : one + " -> " + list, call.operands, call.results);
  }

  // Pieces on one side, their concatenation on the other.
  static Result<Rule> pieces_rule(const OpCall& call, const std::vector<TensorType>& pieces, const TensorType& joint,
                                  bool joins) {
    const std::size_t at = dimension(call, joint);
    const std::size_t rank = joint.shape.size();
    if (std::ranges::any_of(pieces, [&](const TensorType& piece) { return piece.shape.size() != rank; })) {
      return bad_input("a piece of another rank, which PyTorch leaves out where it is empty, is not supported");
    }
    const bool equal = std::ranges::all_of(pieces, [&](const TensorType& piece) { return piece.shape[at] == pieces[0].shape[at]; });
    std::string list;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string piece = equal ? "q" : whole_text(pieces[i].shape[at], "w" + std::to_string(i));
      list += (i > 0 ? ", " : "") + dimensions_text(rank, at, piece);
    }
    // One factor of a product must be of known size: the number of pieces is spelled as a number.
    const std::string count = std::to_string(pieces.size());
    const std::string whole = equal ? (pieces.size() == 1 ? "q" : "(!" + count + " q)") : whole_text(joint.shape[at], "w");
    const std::string one = dimensions_text(rank, at, whole);
    return parse_rule(joins ? list + " -> " + one : one + " -> " + list, call.operands, call.results);
  }

  // `whole` is what is sliced, `piece` what is taken; the gradient goes the other way.
  static Result<Rule> slice_rule(const OpCall& call, const TensorType& whole, const TensorType& piece, bool backward) {
    const std::size_t at = dimension(call, whole);
    const std::int64_t size = whole.shape[at];
    const std::int64_t taken = piece.shape[at];
    std::int64_t start = call.node.integer("start", 0);
    if (start < 0) start += size;
    const bool aligned = taken > 1 && size % taken == 0 && start % taken == 0 && call.node.integer("step", 1) == 1;
    std::string from = whole_text(size, "w"), to = whole_text(taken, "v");
    if (taken == size) from = to = "~q";
    else if (aligned) from = "(!" + std::to_string(size / taken) + " q)", to = "q";
    from = dimensions_text(whole.shape.size(), at, from);
    to = dimensions_text(whole.shape.size(), at, to);
    return parse_rule(backward ? to + " -> " + from : from + " -> " + to, call.operands, call.results);
  }

  static std::size_t dimension(const OpCall& call, const TensorType& type) { return joint_dimension(call.node, type.rank()); }

  Result<OpCost> do_cost(const OpCall& given, const Rule&) const override {
    OpCost cost;
    const Node node = canonical(given.node, given.operands[0].rank());
    const OpCall call{node, given.operands, given.results};
    const bool joins = call.node.op == "aten.cat" || call.node.op == "aten.stack" || call.node.op.ends_with("_backward");
    cost.alias = !joins;
    cost.alias_backward = joins;  // slices of the gradient
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    const Node node = canonical(call.node, call.type(call.node.operands[0].value).rank());
    return join_gradient({node, call.result_gradients, call.wanted, call.build});
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Node node = canonical(call.node, call.operands[0].rank());
    return join_evaluate({node, call.operands, call.results}, operands);
  }

  // A slice that shards is one of equal pieces, each of which is cut alike: its start shrinks with the dimension.
  Status do_localize(const LocalCall& call) const override {
    Attributes attributes = call.call.node.attributes;
    const bool backward = call.call.node.op == "aten.slice_backward";
    if (backward || call.call.node.op == "aten.slice.Tensor") {
      const ShardedType& whole = backward ? call.results[0] : call.operands[0];
      const std::size_t at = joint_dimension(call.call.node, whole.type.rank());
      const std::int64_t size = whole.type.shape[at], local = local_type(whole, call.mesh).shape[at];
      if (local != size) {
        std::int64_t start = call.call.node.integer("start", 0);
        if (start < 0) start += size;
        start = start * local / size;
        attributes["start"] = start;
        attributes["end"] = start + local_type(backward ? call.operands[0] : call.results[0], call.mesh).shape[at];
      }
    }
    call.emit(std::move(attributes));
    return Done{};
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "join", "0.1.0", "Apache-2.0", "Cut a dimension in pieces, or join pieces", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Join>), destroy_plugin<OpFamily>)

}  // namespace meshwright
