// A tensor with a slice of it replaced: what an assignment to a slice becomes when nothing is in place. The sliced dimension
// stays whole, the others shard.
#include <algorithm>

#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.slice_scatter", "aten.select_scatter", nullptr};

class Overwrite final : public OpFamily {
 private:
  // A selected dimension is missing in what replaces it.
  Result<Rule> do_rule(const OpCall& call) const override {
    const TensorType &self = call.operands[0], &piece = call.operands[1];
    const std::size_t at = dimension(call.node, self.rank());
    const bool everything = piece.shape == self.shape;
    std::string whole, part;
    for (std::size_t i = 0; i < self.shape.size(); ++i) {
      const std::string number = std::to_string(i);
      const auto stays = [&](const char* name, std::int64_t size) { return size == 1 ? std::string(" 1") : " !" + (name + number); };
      const bool cut = i == at && !everything;
      whole += cut ? stays("w", self.shape[i]) : " d" + number;
      if (!cut) part += " d" + number;
      else if (!selects(call.node)) part += stays("v", piece.shape[i]);
    }
    Result<Rule> rule = parse_rule(whole + "," + part + " ->" + whole, call.operands, call.results);
    if (rule && is_floating(self.dtype)) rule->linear = {{0, 1}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }

  // Zeros where it was replaced; the replacement's is that slice.
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients(2, kNoId);
    const ValueId gradient = call.result_gradients[0];
    const TensorType piece = call.type(call.node.operands[1].value);
    if (call.wanted[0]) {
      const ValueId zeros = call.build.emit("aten.zeros", {}, {{"size", piece.shape}}, piece);
      gradients[0] = call.build.emit(call.node.op, {{"self", gradient}, {"src", zeros}}, call.node.attributes, call.type(gradient));
    }
    if (call.wanted[1]) {
      gradients[1] = call.build.emit(selects(call.node) ? "aten.select.int" : "aten.slice.Tensor", {{"self", gradient}},
                                     call.node.attributes, piece);
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Tensor &self = *operands[0], &piece = *operands[1];
    const std::size_t at = dimension(call.node, self.type().rank());
    const std::int64_t size = self.shape()[at], step = selects(call.node) ? 1 : call.node.integer("step", 1);
    std::int64_t start = call.node.integer(selects(call.node) ? "index" : "start", 0);
    start = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
    std::int64_t inner = 1;
    for (std::size_t d = at + 1; d < self.shape().size(); ++d) inner *= self.shape()[d];
    const std::int64_t count = selects(call.node) ? 1 : piece.shape()[at], outer = self.elements() / size / inner;
    const bool fits = piece.elements() == outer * count * inner && self.type() == call.results[0];
    if (!fits || start + (count - 1) * step >= size) return bad_input("what replaces a slice does not fit into it");
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    for (std::int64_t i = 0; i < self.elements(); ++i) result.set(i, self.get(i));
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t k = 0; k < inner; ++k) {
          result.set((o * size + start + i * step) * inner + k, piece.get((o * count + i) * inner + k));
        }
      }
    }
    return results;
  }

  static bool selects(const Node& node) { return node.op == "aten.select_scatter"; }
  static std::size_t dimension(const Node& node, std::int64_t rank) {
    const std::int64_t at = node.integer("dim", 0);
    return static_cast<std::size_t>(at < 0 ? at + rank : at);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "overwrite", "0.1.0", "Apache-2.0", "A tensor with a slice of it replaced", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Overwrite>), destroy_plugin<OpFamily>)

}  // namespace meshwright
