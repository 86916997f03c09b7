// Ops that cut a dimension in pieces or join pieces. Equal pieces are a product of factors: a fused projection of
// 2304 that is split by 768 is (!p d) with p = 3, so that it still shards over d, or over the heads inside.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.split.Tensor", "aten.split_with_sizes", "aten.chunk", "aten.slice.Tensor",
                                "aten.select.int", "aten.cat", "aten.constant_pad_nd", "aten.pad", nullptr};

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

class Join final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    Result<Rule> rule = parse(call);
    if (!rule) return rule;
    std::vector<std::uint32_t> all(call.operands.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    if (is_floating(call.results[0].dtype) && !(is_pad(call) && pad_value(call) != 0)) rule->linear = {all};
    return rule;
  }

  static Result<Rule> parse(const OpCall& call) {
    const std::string& op = call.node.op;
    if (is_pad(call)) return pad_rule(call);
    if (op == "aten.cat") return pieces_rule(call, call.operands, call.results[0], true);
    if (op == "aten.select.int") {
      const std::size_t at = dimension(call, call.operands[0]);
      const std::size_t rank = call.operands[0].shape.size();
      return parse_rule(dimensions_text(rank, at, whole_text(call.operands[0].shape[at], "w")) + " -> " +
                            dimensions_text(rank, at, ""), call.operands, call.results);
    }
    if (op == "aten.slice.Tensor") return slice_rule(call);
    return pieces_rule(call, call.results, call.operands[0], false);
  }

  // Pieces on one side, their concatenation on the other.
  static Result<Rule> pieces_rule(const OpCall& call, const std::vector<TensorType>& pieces, const TensorType& joint,
                                  bool joins) {
    const std::size_t at = dimension(call, joint);
    const std::size_t rank = joint.shape.size();
    const bool equal = std::all_of(pieces.begin(), pieces.end(), [&](const TensorType& piece) {
      return piece.shape.size() == rank && piece.shape[at] == pieces[0].shape[at];
    });
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

  static Result<Rule> slice_rule(const OpCall& call) {
    const TensorType& from = call.operands[0];
    const std::size_t at = dimension(call, from);
    const std::int64_t size = from.shape[at];
    const std::int64_t taken = call.results[0].shape[at];
    std::int64_t start = call.node.integer("start", 0);
    if (start < 0) start += size;
    const bool aligned = taken > 1 && size % taken == 0 && start % taken == 0 && call.node.integer("step", 1) == 1;
    std::string before = whole_text(size, "w"), after = whole_text(taken, "v");
    if (taken == size) before = after = "~q";
    else if (aligned) before = "(!" + std::to_string(size / taken) + " q)", after = "q";
    return parse_rule(dimensions_text(from.shape.size(), at, before) + " -> " +
                          dimensions_text(from.shape.size(), at, after), call.operands, call.results);
  }

  static bool is_pad(const OpCall& call) { return call.node.op == "aten.pad" || call.node.op == "aten.constant_pad_nd"; }

  static double pad_value(const OpCall& call) {
    const auto found = call.node.attributes.find("value");
    if (found == call.node.attributes.end()) return 0;
    if (const auto* real = std::get_if<double>(&found->second)) return *real;
    return static_cast<double>(call.node.integer("value", 0));
  }

  static Result<Rule> pad_rule(const OpCall& call) {
    if (call.node.text("mode", "constant") != "constant") return bad_input("only constant padding is supported");
    std::string before, after;
    for (std::size_t i = 0; i < call.results[0].shape.size(); ++i) {
      const std::int64_t from = call.operands[0].shape[i], to = call.results[0].shape[i];
      const std::string space = i > 0 ? " " : "";
      before += space + (from == to ? "d" + std::to_string(i) : whole_text(from, "w" + std::to_string(i)));
      after += space + (from == to ? "d" + std::to_string(i) : whole_text(to, "v" + std::to_string(i)));
    }
    return parse_rule(before + " -> " + after, call.operands, call.results);
  }

  static std::size_t dimension(const OpCall& call, const TensorType& type) {
    const std::int64_t at = call.node.integer("dim", 0);
    return static_cast<std::size_t>(at < 0 ? at + type.rank() : at);
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule&) const override {
    OpCost cost;
    cost.alias = call.node.op != "aten.cat" && !is_pad(call);
    cost.alias_backward = call.node.op == "aten.cat" || is_pad(call);  // slices of the gradient
    return cost;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "join", "0.1.0", "Apache-2.0", "Cut a dimension in pieces, or join pieces", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Join>), destroy_plugin<OpFamily>)

}  // namespace meshwright
