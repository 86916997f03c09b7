// The batch shards, and nothing else: each step needs the whole hidden state of the one before.
#include "recurrent.h"

#include <algorithm>
#include <map>

#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr const char* kOps[] = {kRecurrent, kRecurrentBackward, nullptr};

// The names of a rule's dimensions for one tensor; all but the batch stay whole.
class Letters {
 public:
  explicit Letters(const Recurrence& sizes) : sizes_(sizes) {}

  [[nodiscard]] std::string of(const std::string& name, const TensorType& type) const {
    if (name == "input") return sequence(type, "i");
    if (name == "output" || name == "grad_output") return sequence(type, "o");
    if (name == "saved") return "@" + sequence(type, "s");
    std::string text;
    const bool state = !name.starts_with("params.");
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      const std::string letter = state ? std::string(i == 0 ? "l" : "h") : (i == 0 ? "r" : "c") + name.substr(std::string("params.").size());
      text += " " + (state && i == 1 ? "b" : whole(letter, type.shape[i]));
    }
    return text;
  }

 private:
  static std::string whole(const std::string& name, std::int64_t size) { return size == 1 ? "1" : "!" + name; }

  [[nodiscard]] std::string sequence(const TensorType& type, const char* last) const {
    const std::string steps = whole("t", sizes_.steps);
    return (sizes_.batch_first ? "b " + steps : steps + " b") + " " + whole(last, type.shape[2]);
  }

  const Recurrence& sizes_;
};

class Recurrent final : public OpFamily {
 private:
  static bool is_backward(const Node& node) { return node.op == kRecurrentBackward; }

  Result<Rule> do_rule(const OpCall& call) const override {
    const Result<Recurrence> sizes = recurrence_of(call);
    if (!sizes) return sizes.error();
    const Letters letters(*sizes);
    std::string operands, results;
    std::vector<std::size_t> gradients;
    std::size_t differentiated = 0;  // of the backward's operands, those whose gradients are its results
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const std::string& name = call.node.operands[i].name;
      const std::string text = letters.of(name, call.operands[i]);
      operands += (i > 0 ? ", " : "") + text;
      if (name.starts_with("grad_")) gradients.push_back(i);
      else if (is_backward(call.node) && name != "saved") results += (differentiated++ > 0 ? ", " : "") + text;
    }
    if (!is_backward(call.node)) {
      for (std::size_t i = 0; i < call.results.size(); ++i) {
        results += (i > 0 ? ", " : "") + letters.of(i == 0 ? "output" : i + 1 == call.results.size() ? "saved" : "hx", call.results[i]);
      }
    }
    Result<Rule> rule = parse_rule(operands + " -> " + results, call.operands, call.results);
    if (rule && is_backward(call.node)) rule->linear = {{gradients.begin(), gradients.end()}};
    return rule;
  }

  Result<OpCost> do_cost(const OpCall& call, const Rule& rule) const override {
    const Result<Recurrence> sizes = recurrence_of(call);
    if (!sizes) return sizes.error();
    double products = 0;  // of one example in one step
    for (std::int64_t layer = 0; layer < sizes->layers; ++layer) {
      products += static_cast<double>(sizes->directions * sizes->gates() * sizes->hidden * (sizes->width_of(layer) + sizes->hidden));
    }
    OpCost cost;
    cost.matrix = true;
    cost.forward.push_back({(is_backward(call.node) ? 4 : 2) * products * static_cast<double>(sizes->steps), {rule.factor("b")}});
    cost.backward_ratio = 2;
    return cost;
  }

  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    if (is_backward(call.node)) return bad_input("its op family states no gradient");
    static constexpr const char* kGradients[] = {"grad_output", "grad_h", "grad_c"};
    std::vector<Operand> operands;
    for (std::size_t i = 0; i + 1 < call.result_gradients.size(); ++i) {
      if (call.result_gradients[i] != kNoId) operands.push_back({kGradients[i], call.result_gradients[i]});
    }
    operands.push_back({"saved", call.node.results.back()});
    std::vector<TensorType> types;
    for (const Operand& operand : call.node.operands) {
      operands.push_back(operand);
      types.push_back(call.type(operand.value));
    }
    std::vector<ValueId> gradients = call.build.emit(kRecurrentBackward, operands, call.node.attributes, types);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!call.wanted[i]) gradients[i] = kNoId;
    }
    return gradients;
  }

  Result<std::vector<Tensor>> do_evaluate(const OpCall& call, std::span<const Tensor* const> operands) const override {
    const Result<Recurrence> sizes = recurrence_of(call);
    if (!sizes) return sizes.error();
    return is_backward(call.node) ? evaluate_recurrence_backward(call, *sizes, operands) : evaluate_recurrence(call, *sizes, operands);
  }

  FoundComposites do_find_composites(const Graph& graph) const override { return find_recurrences(graph); }
};

Error unlike() { return bad_input("its operands and results are not those of recurrent layers"); }

// Of the weights and biases of one layer and direction, in their order.
std::vector<std::vector<std::int64_t>> shapes_of_stack(const Recurrence& sizes, std::int64_t layer) {
  const std::int64_t rows = sizes.gates() * sizes.hidden;
  std::vector<std::vector<std::int64_t>> shapes = {{rows, sizes.width_of(layer)}, {rows, sizes.hidden}};
  if (sizes.biases) shapes.insert(shapes.end(), 2, {rows});
  return shapes;
}

// Errors where the weights and biases are others than layers of these sizes have.
Status check_params(const OpCall& call, const Recurrence& sizes) {
  std::int64_t count = 0;
  for (const Operand& operand : call.node.operands) count += operand.name.starts_with("params.");
  if (sizes.layers < 1 || sizes.layers > count || count != sizes.stacks() * sizes.params_of_stack()) return unlike();
  for (std::int64_t stack = 0; stack < sizes.stacks(); ++stack) {
    const auto shapes = shapes_of_stack(sizes, stack / sizes.directions);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::size_t number = static_cast<std::size_t>(stack * sizes.params_of_stack()) + i;
      const TensorType* type = call.operand("params." + std::to_string(number));
      if (type == nullptr || type->shape != shapes[i] || !is_floating(type->dtype)) return unlike();
    }
  }
  return Done{};
}

}  // namespace

Result<Recurrence> recurrence_of(const OpCall& call) {
  static const std::map<std::string, Cell, std::less<>> kCells = {
      {"lstm", Cell::lstm}, {"gru", Cell::gru}, {"tanh", Cell::tanh}, {"relu", Cell::relu}};
  const auto cell = kCells.find(call.node.text("cell", ""));
  const TensorType *input = call.operand("input"), *state = call.operand("hx"), *weight = call.operand("params.1");
  if (cell == kCells.end() || !input || !state || !weight) return unlike();
  if (input->rank() != 3 || state->rank() != 3 || weight->rank() != 2) return unlike();
  Recurrence sizes;
  sizes.cell = cell->second;
  sizes.layers = call.node.integer("num_layers", 1);
  sizes.directions = call.node.boolean("bidirectional", false) ? 2 : 1;
  sizes.biases = call.node.boolean("has_biases", true);
  sizes.batch_first = call.node.boolean("batch_first", false);
  sizes.steps = input->shape[sizes.batch_first ? 1 : 0];
  sizes.batch = input->shape[sizes.batch_first ? 0 : 1];
  sizes.width = input->shape[2];
  sizes.hidden = weight->shape[1];
  if (Status status = check_params(call, sizes); !status) return status.error();
  const std::vector<std::int64_t> states = {sizes.stacks(), sizes.batch, sizes.hidden};
  const TensorType* second = call.operand("cx");
  if (state->shape != states || (second != nullptr) != (sizes.states() == 2) || (second && second->shape != states)) return unlike();
  for (const TensorType& type : call.operands) {
    if (!is_floating(type.dtype) || is_complex(type.dtype)) return unlike();
  }
  std::vector<std::int64_t> sequence = {input->shape[0], input->shape[1], sizes.directions * sizes.hidden};
  if (call.node.op == kRecurrent) {
    if (call.results.size() != static_cast<std::size_t>(2 + sizes.states()) || call.results[0].shape != sequence) return unlike();
    for (std::int64_t i = 1; i <= sizes.states(); ++i) {
      if (call.results[static_cast<std::size_t>(i)].shape != states) return unlike();
    }
  }
  return sizes;
}

MESHWRIGHT_PLUGIN("ops", "recurrent", "0.1.0", "Apache-2.0", "Recurrent layers: LSTM, GRU, Elman", kOps, nullptr, 0,
                  (create_plugin<OpFamily, Recurrent>), destroy_plugin<OpFamily>)

}  // namespace meshwright
