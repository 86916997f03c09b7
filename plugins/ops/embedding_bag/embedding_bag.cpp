// Sums, means or maxima of rows that are looked up, bag by bag. Columns shard; where bags begin depends on the data, so rows,
// indices and bags stay whole.
#include "meshwright/op.h"
#include "meshwright/plugin.h"
#include "numbers.h"

namespace meshwright {
namespace {

// meshwright.embedding_bag_backward(grad_output, indices, offsets, per_sample_weights?, max_indices?) -> the gradient of weight,
// with the attributes of the forward.
constexpr const char* kBackward = "meshwright.embedding_bag_backward";
constexpr const char* kOps[] = {"aten._embedding_bag", "aten.embedding_bag.padding_idx", kBackward, nullptr};

enum class Mode : std::int64_t { sum = 0, mean = 1, maximum = 2 };

Mode mode_of(const Node& node) { return static_cast<Mode>(node.integer("mode", 0)); }

// By index: its bag, and whether it counts; and by bag how many do.
struct Bags {
  std::vector<std::int64_t> of;
  std::vector<bool> counted;
  Numbers counts;
};

Result<Bags> bags_of(const Node& node, const Tensor& indices, const Tensor& offsets, std::int64_t rows) {
  const std::int64_t bags = offsets.elements() - (node.boolean("include_last_offset", false) ? 1 : 0);
  Bags made{{}, {}, Numbers(to_size(bags), 0.0)};
  std::int64_t bag = -1;
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    while (bag + 1 < bags && offsets.get(bag + 1) <= static_cast<double>(i)) ++bag;
    const auto index = static_cast<std::int64_t>(indices.get(i));
    if (bag < 0 || index < 0 || index >= rows) return bad_input("an index is outside of the table, or before the first bag");
    const bool counts = index != node.integer("padding_idx", -1);
    made.of.push_back(bag);
    made.counted.push_back(counts);
    if (counts) ++made.counts[to_size(bag)];
  }
  return made;
}

class EmbeddingBag final : public OpFamily {
 private:
  Result<Rule> do_rule(const OpCall& call) const override {
    const auto whole = [](const std::string& name, const TensorType& type) {
      return type.rank() > 0 && type.shape[0] == 1 ? std::string("1") : "!" + name;
    };
    const bool backward = call.node.op == kBackward;
    const TensorType& table = backward ? call.results[0] : call.operands[0];
    const std::string rows = whole("v", table) + " d";
    const std::string bags = whole("b", backward ? call.operands[0] : call.results[0]) + " d";
    std::string operands, results;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const std::string& name = call.node.operands[i].name;
      operands += (i > 0 ? ", " : "") + (name == "weight"                ? rows
                                         : name == "grad_output"         ? bags
                                         : call.operands[i].rank() == 2  ? bags  // of a maximum, its rows
                                                                         : whole("o" + std::to_string(i), call.operands[i]));
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      results += (i > 0 ? ", " : "") + (backward ? rows : call.results[i].rank() == 2 ? bags : whole("r" + std::to_string(i), call.results[i]));
    }
    Result<Rule> rule = parse_rule(operands + " -> " + results, call.operands, call.results);
    if (!rule) return rule;
    if (backward) rule->linear = {{0}};
    else for (Factor& factor : rule->factors) factor.internal = factor.name == "d";  // the other results lack the columns
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    OpCost cost;
    cost.gathers = call.node.op != kBackward;
    const double indices = static_cast<double>(call.operand("indices")->elements());
    cost.forward.push_back({indices, {rule.factor("d")}});
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (call.node.op == kBackward) return bad_input("its op family states no gradient");
    if (call.node.boolean("scale_grad_by_freq", false)) return bad_input("a gradient that is scaled by frequency is not stated");
    std::vector<ValueId> gradients(call.node.operands.size(), kNoId);
    const auto weights = call.node.operand_index("per_sample_weights");
    if (weights && call.wanted[*weights]) return bad_input("its op family states no gradient of 'per_sample_weights'");
    if (!call.wanted[0] || call.result_gradients[0] == kNoId) return gradients;
    std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}, {"indices", call.operand("indices")},
                                     {"offsets", call.operand("offsets")}, {"per_sample_weights", call.operand("per_sample_weights")}};
    if (mode_of(call.node) == Mode::maximum) operands.push_back({"max_indices", call.node.results[3]});
    gradients[0] = call.build.emit(kBackward, operands, call.node.attributes, call.type(call.node.operands[0].value));
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Node& node = call.node;
    const bool backward = node.op == kBackward;
    const auto find = [&](std::string_view name) -> const Tensor* {
      const auto index = node.operand_index(name);
      return index ? operands[*index] : nullptr;
    };
    const Tensor &indices = *find("indices"), *weights = find("per_sample_weights"), *winners = find("max_indices");
    const std::int64_t rows = (backward ? call.results[0] : call.operands[0]).shape[0], columns = call.operands[0].shape.back();
    const Result<Bags> bags = bags_of(node, indices, *find("offsets"), rows);
    if (!bags) return bags.error();
    // A wrong rule would cut what has to be whole.
    const TensorType& of_bags = backward ? call.operands[0] : call.results[0];
    const TensorType& table = backward ? call.results[0] : call.operands[0];
    bool fits = of_bags.shape[0] == static_cast<std::int64_t>(bags->counts.size()) && of_bags.shape.back() == table.shape.back();
    fits &= !weights || weights->elements() == indices.elements();
    for (std::size_t i = 1; i < call.results.size(); ++i) {
      const bool by_index = i == 1 && call.results[i].elements() <= indices.elements();
      fits &= by_index || call.results[i].shape[0] == of_bags.shape[0];
      fits &= call.results[i].rank() < 2 || call.results[i].shape == of_bags.shape;
    }
    fits &= !winners || winners->shape() == of_bags.shape;
    if (!fits) return bad_input("the sizes of table, bags and results do not go together");
    std::vector<Tensor> results;
    for (const TensorType& type : call.results) results.emplace_back(type);
    Tensor& result = results[0];
    const bool maximum = mode_of(node) == Mode::maximum;
    std::vector<bool> begun(bags->counts.size(), false);
    for (std::size_t i = 0; i < bags->of.size(); ++i) {
      const std::int64_t bag = bags->of[i], index = static_cast<std::int64_t>(indices.get(static_cast<std::int64_t>(i)));
      if (!bags->counted[i]) continue;
      double share = weights ? weights->get(static_cast<std::int64_t>(i)) : 1;
      if (mode_of(node) == Mode::mean) share /= bags->counts[to_size(bag)];
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t row = index * columns + c, made = bag * columns + c;
        if (backward) {
          if (!maximum) result.set(row, result.get(row) + share * operands[0]->get(made));
        } else if (!maximum) {
          result.set(made, result.get(made) + share * operands[0]->get(row));
        } else if (!begun[to_size(bag)] || operands[0]->get(row) > result.get(made)) {
          result.set(made, operands[0]->get(row));
          results[3].set(made, static_cast<double>(index));
        }
      }
      begun[to_size(bag)] = true;
    }
    if (backward) {
      for (std::int64_t i = 0; winners && i < winners->elements(); ++i) {
        const std::int64_t row = static_cast<std::int64_t>(winners->get(i)) * columns + i % columns;
        if (row < 0 || row >= result.elements()) return bad_input("a maximum's index is outside of the table");
        if (bags->counts[to_size(i / columns)] > 0) result.set(row, result.get(row) + operands[0]->get(i));
      }
      return results;
    }
    describe_bags(node, *bags, results);
    return results;
  }

  // offset2bag, bag_size and, but for a maximum, the sizes again; of a sum PyTorch leaves them zero.
  static void describe_bags(const Node& node, const Bags& bags, std::vector<Tensor>& results) {
    for (std::int64_t i = 0; i < results[1].elements(); ++i) results[1].set(i, static_cast<double>(bags.of[to_size(i)]));
    if (mode_of(node) == Mode::sum) return;
    for (std::size_t b = 0; b < bags.counts.size(); ++b) {
      results[2].set(static_cast<std::int64_t>(b), bags.counts[b]);
      if (mode_of(node) == Mode::mean) results[3].set(static_cast<std::int64_t>(b), bags.counts[b]);
    }
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("ops", "embedding_bag", "0.1.0", "Apache-2.0", "Rows looked up and reduced bag by bag", kOps, nullptr, 0,
                  (create_plugin<OpFamily, EmbeddingBag>), destroy_plugin<OpFamily>)

}  // namespace meshwright
