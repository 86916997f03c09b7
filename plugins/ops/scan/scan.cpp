// Scans: every result depends on its neighbours along one dimension, which stays whole.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "dimensions.h"
#include "meshwright/op.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {"aten.cumsum", "aten.diff", "aten.flip", "aten.roll", nullptr};

class Scan final : public OpFamily {
 private:
  // The scanned dimensions stay whole. diff has operands of other lengths: what stands before and after.
  Result<Rule> do_rule(const OpCall& call) const override {
    const std::vector<bool> scanned_ones = scanned_dimensions(call.node, call.operands[0].rank());
    const bool several = std::ranges::count(scanned_ones, true) > 1;
    const auto dimensions = [&](const TensorType& type, const std::string& scanned) {
      std::string text;
      for (std::size_t i = 0; i < type.shape.size(); ++i) {
        const std::string whole = "!" + scanned + (several ? "_" + std::to_string(i) : "");
        const std::string here = scanned_ones[i] ? whole : "d" + std::to_string(i);
        text += (i > 0 ? " " : "") + (type.shape[i] == 1 ? std::string("1") : here);
      }
      return text;
    };
    std::string text;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      text += (i > 0 ? ", " : "") + dimensions(call.operands[i], "w" + std::to_string(i));
    }
    Result<Rule> rule = parse_rule(text + " -> " + dimensions(call.results[0], "v"), call.operands, call.results);
    if (!rule || !is_floating(call.results[0].dtype)) return rule;
    std::vector<std::uint32_t>& all = rule->linear.emplace_back(call.operands.size());
    std::iota(all.begin(), all.end(), 0U);
    return rule;
  }

  Result<OpCost> do_cost(const OpCall&, const Rule& rule) const override {
    OpCost cost;
    WorkTerm& term = cost.forward.emplace_back();
    term.flops = 1;
    for (const auto& dimension : rule.results[0].dimensions) {
      term.factors.insert(term.factors.end(), dimension.begin(), dimension.end());
    }
    return cost;
  }

  // flip and roll have several, the others one. A roll that names none is one of all elements in a row.
  static std::vector<bool> scanned_dimensions(const Node& node, std::int64_t rank) {
    if (rolls_flat(node)) return std::vector<bool>(static_cast<std::size_t>(rank), true);
    return named_dimensions(turns(node) ? node.integers("dims") : std::vector{node.integer("dim", -1)}, rank);
  }

  static std::size_t scanned_dimension(const Node& node, std::int64_t rank) {
    const std::vector<bool> scanned = scanned_dimensions(node, rank);
    return static_cast<std::size_t>(std::ranges::find(scanned, true) - scanned.begin());
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    if (call.node.op == "aten.diff") {
      diff_gradient(call, gradients);
    } else if (call.wanted[0]) {
      gradients[0] = call.node.op == "aten.flip"   ? flip(call, call.result_gradients[0], call.node.integers("dims"))
                     : call.node.op == "aten.roll" ? roll_back(call)
                                                   : cumsum_gradient(call);
    }
    return gradients;
  }

  static ValueId flip(const GradientCall& call, ValueId id, const std::vector<std::int64_t>& dims) {
    return call.build.emit("aten.flip", {{"self", id}}, {{"dims", dims}}, call.type(id));
  }

  static ValueId roll_back(const GradientCall& call) {
    std::vector<std::int64_t> shifts = call.node.integers("shifts");
    for (std::int64_t& shift : shifts) shift = -shift;
    return call.build.emit("aten.roll", {{"self", call.result_gradients[0]}}, {{"shifts", shifts}, {"dims", call.node.integers("dims")}},
                           call.type(call.result_gradients[0]));
  }

  // A sum of what comes later: flip, sum, flip (PyTorch's cumsum_backward).
  static ValueId cumsum_gradient(const GradientCall& call) {
    const TensorType type = call.type(call.node.operands[0].value);
    const auto dim = static_cast<std::int64_t>(scanned_dimension(call.node, type.rank()));
    const ValueId flipped = flip(call, call.result_gradients[0], {dim});
    return flip(call, call.build.emit("aten.cumsum", {{"self", flipped}}, {{"dim", dim}}, type), {dim});
  }

  // y[i] = x[i + 1] - x[i], so dx[j] = dy[j - 1] - dy[j] with zeros outside: a difference of the padded gradient, with the
  // sign of (-1)^n. What stood before and after is cut off again.
  static void diff_gradient(const GradientCall& call, std::vector<ValueId>& gradients) {
    TensorType type = call.type(call.result_gradients[0]);
    const std::size_t at = scanned_dimension(call.node, type.rank());
    const auto dim = static_cast<std::int64_t>(at);
    const std::int64_t n = call.node.integer("n", 1);
    std::vector<std::int64_t> widths(2 * (type.shape.size() - at), 0);  // from the last dimension backwards
    widths[widths.size() - 2] = widths.back() = n;
    type.shape[at] += 2 * n;
    ValueId joint = call.build.emit("aten.constant_pad_nd", {{"self", call.result_gradients[0]}},
                                    {{"pad", widths}, {"value", std::int64_t{0}}}, type);
    type.shape[at] -= n;
    joint = call.build.emit("aten.diff", {{"self", joint}}, {{"n", n}, {"dim", dim}}, type);
    if (n % 2 == 1) joint = call.build.emit("aten.neg", {{"self", joint}}, {}, type);
    std::int64_t start = 0;
    for (const char* name : {"prepend", "self", "append"}) {
      const auto index = call.node.operand_index(name);
      if (!index) continue;
      const TensorType piece = call.type(call.node.operands[*index].value);
      if (call.wanted[*index]) {
        gradients[*index] = piece == type ? joint
                                          : call.build.emit("aten.slice.Tensor", {{"self", joint}},
                                                            {{"dim", dim}, {"start", start}, {"end", start + piece.shape[at]}}, piece);
      }
      start += piece.shape[at];
    }
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    std::vector<Tensor> results;
    Tensor& result = results.emplace_back(call.zeros(0));
    const Tensor& self = *operands[0];
    const Error lengths = bad_input("the lengths of operands and result do not go together");
    if (turns(call.node)) {
      if (self.shape() != result.shape()) return lengths;
      turn(call.node, self, result);
      return results;
    }
    if (self.type().rank() == 0) {  // a running sum of one number
      result.set(0, self.get(0));
      return results;
    }
    const std::size_t at = scanned_dimension(call.node, self.type().rank());
    std::int64_t outer = 1, inner = 1;
    for (std::size_t d = 0; d < self.shape().size(); ++d) (d < at ? outer : inner) *= d == at ? 1 : self.shape()[d];
    const bool truncates = !is_floating(result.type().dtype);  // "dtype" converts before the sum
    const auto column = [&](const Tensor& tensor, std::int64_t o, std::int64_t k, std::vector<double>& numbers) {
      const std::int64_t extent = tensor.shape()[at];
      for (std::int64_t i = 0; i < extent; ++i) {
        const double number = tensor.get((o * extent + i) * inner + k);
        numbers.push_back(truncates ? std::trunc(number) : number);
      }
    };
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t k = 0; k < inner; ++k) {
        std::vector<double> numbers;
        const auto prepend = call.node.operand_index("prepend"), append = call.node.operand_index("append");
        if (prepend) column(*operands[*prepend], o, k, numbers);
        column(self, o, k, numbers);
        if (append) column(*operands[*append], o, k, numbers);
        scan(call.node, numbers);
        const std::int64_t extent = result.shape()[at];
        if (static_cast<std::int64_t>(numbers.size()) != extent) return lengths;
        for (std::int64_t i = 0; i < extent; ++i) result.set((o * extent + i) * inner + k, numbers[static_cast<std::size_t>(i)]);
      }
    }
    return results;
  }

  static bool turns(const Node& node) { return node.op == "aten.flip" || node.op == "aten.roll"; }

  static bool rolls_flat(const Node& node) { return node.op == "aten.roll" && node.integers("dims").empty(); }

  // By dimension: how far its elements move round.
  static std::vector<std::int64_t> rolled_distances(const Node& node, const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> distances(shape.size(), 0);
    const std::vector<std::int64_t> dims = node.integers("dims"), shifts = node.integers("shifts");
    for (std::size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
      const auto at = static_cast<std::size_t>(dims[i] < 0 ? dims[i] + static_cast<std::int64_t>(shape.size()) : dims[i]);
      distances[at] = ((distances[at] + shifts[i]) % shape[at] + shape[at]) % shape[at];
    }
    return distances;
  }

  static void turn(const Node& node, const Tensor& self, Tensor& result) {
    if (rolls_flat(node)) {
      const std::vector<std::int64_t> shifts = node.integers("shifts");
      const std::int64_t count = self.elements(), shift = shifts.empty() || count == 0 ? 0 : (shifts[0] % count + count) % count;
      for (std::int64_t i = 0; i < count; ++i) result.set((i + shift) % count, self.get(i));
      return;
    }
    const bool flips = node.op == "aten.flip";
    const std::vector<bool> turned = scanned_dimensions(node, self.type().rank());
    const std::vector<std::int64_t> strides = strides_of(self.shape()), distances = rolled_distances(node, self.shape());
    for (std::int64_t i = 0; i < self.elements(); ++i) {
      std::int64_t rest = i, target = 0;
      for (std::size_t d = 0; d < strides.size(); ++d) {
        const std::int64_t position = rest / strides[d], size = self.shape()[d];
        rest %= strides[d];
        target += strides[d] * (!turned[d] ? position : flips ? size - 1 - position : (position + distances[d]) % size);
      }
      result.set(target, self.get(i));
    }
  }

  static void scan(const Node& node, std::vector<double>& numbers) {
    if (node.op == "aten.cumsum") std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
    for (std::int64_t n = 0; node.op == "aten.diff" && n < node.integer("n", 1) && !numbers.empty(); ++n) {
      std::adjacent_difference(numbers.begin(), numbers.end(), numbers.begin());
      numbers.erase(numbers.begin());  // the first has no one before it
    }
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "scan", "0.1.0", "Apache-2.0", "Running sums and differences, and turning round, along dimensions", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Scan>), destroy_plugin<OpFamily>)

}  // namespace meshwright
